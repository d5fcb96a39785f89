#include "log.h"

#include <fastdds/dds/log/Log.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>

using eprosima::fastdds::dds::Log;

namespace {

// Several errors are kept, as one cause may log an error at each level that it passes.
constexpr size_t kMostErrors = 3;

struct Latest {
    std::mutex mutex;
    std::deque<std::string> errors;
};

// Latest errors, shared with the log's consumer, which lives until the process ends.
std::shared_ptr<Latest> latest()
{
    static const auto shared = std::make_shared<Latest>();
    return shared;
}

class Consumer : public eprosima::fastdds::dds::LogConsumer
{
  public:
    void Consume(const Log::Entry& entry) override
    {
        if (entry.kind != Log::Kind::Error) {
            return;
        }
        std::string error = entry.message;
        std::replace(error.begin(), error.end(), '\n', ' ');
        const std::lock_guard<std::mutex> lock(latest_->mutex);
        latest_->errors.push_back(error);
        if (latest_->errors.size() > kMostErrors) {
            latest_->errors.pop_front();
        }
    }

  private:
    const std::shared_ptr<Latest> latest_ = latest();
};

} // namespace

void watch_log()
{
    static const bool watched = [] {
        Log::RegisterConsumer(std::make_unique<Consumer>());
        return true;
    }();
    static_cast<void>(watched);
}

std::string logged_errors()
{
    Log::Flush();
    const auto shared = latest();
    const std::lock_guard<std::mutex> lock(shared->mutex);
    std::string line;
    for (const auto& error : shared->errors) {
        line += (line.empty() ? ": " : "; ") + error;
    }
    return line;
}
