// A thread that sends on behalf of eCAL's callback thread.
//
// With an acknowledge time-out, a send blocks until the other side's callback has returned. A leader that sent from its
// own callback would wait for a follower that waits for that callback to return. In eCAL's own latency samples the
// callback wakes the main thread, which sends; this thread plays its part.
#ifndef TRIPMETER_ECAL_COURIER_H
#define TRIPMETER_ECAL_COURIER_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

class SendThread {
public:
    // `send` is called in the send_thread's thread, once per submission.
    explicit SendThread(std::function<void()> send)
        : send_(std::move(send))
        , thread_([this] { run(); })
    {
    }

    ~SendThread()
    {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

    SendThread(const SendThread&) = delete;
    SendThread& operator=(const SendThread&) = delete;

    // Calls `prepare`, then lets the thread send; false if the previous message was not sent within the time-out.
    template <typename Prepare>
    bool submit(std::chrono::nanoseconds timeout, Prepare&& prepare)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!taken_.wait_for(lock, timeout, [this] { return !is_waiting_; })) {
            return false;
        }
        prepare();
        is_waiting_ = true;
        lock.unlock();
        wake_.notify_one();
        return true;
    }

private:
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            wake_.wait(lock, [this] { return is_waiting_ || is_over_; });
            if (is_over_) {
                return;
            }
            is_waiting_ = false;
            lock.unlock();
            taken_.notify_one();
            send_();
            lock.lock();
        }
    }

    const std::function<void()> send_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable taken_;
    bool is_waiting_ = false;
    bool is_over_ = false;
    std::thread thread_; // last: it uses all of the above
};

#endif // TRIPMETER_ECAL_COURIER_H
