#!/usr/bin/env bash
# iceoryx 2.0.3 (Debian 12): a subscriber is SUBSCRIBED although its policy does not fit the publisher's, and nothing arrives.
#
# Guess: a subscriber with BLOCK_PRODUCER stays at WAIT_FOR_OFFER while the publisher has the default policy, to discard.
# Seen: it is SUBSCRIBED and gets nothing. It is SUBSCRIBED without any publisher, too. Only hasSubscribers of the
# publisher tells that the two do not fit.
# Users meet this where they set one side's blocking policy only, and wait for SUBSCRIBED before they send or measure.
# Source: PortManager::isCompatiblePubSub (iceoryx_posh/source/roudi/port_manager.cpp) refuses the pair; a multi-producer
# subscriber port is SUBSCRIBED once it has asked, and ignores ACK and NACK (popo/ports/subscriber_port_multi_producer.cpp).
#
# Needs Debian 12, g++ and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version=2.0.3+dfsg-1
packages=(iceoryx="$version" libiceoryx-posh-dev="$version" libiceoryx-hoofs-dev="$version" libiceoryx-posh2="$version"
    libiceoryx-hoofs2="$version" libiceoryx-platform2="$version" libiceoryx-posh-roudi2="$version"
    libiceoryx-posh-config2="$version" libiceoryx-posh-gateway2="$version" libiceoryx-introspection2="$version")
place=$(mktemp -d -p /var/tmp)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >ports.cpp <<'END'
#include "iceoryx_posh/popo/publisher.hpp"
#include "iceoryx_posh/popo/subscriber.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"
#include <chrono>
#include <cstdio>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>

namespace popo = iox::popo;

static const char* name(iox::SubscribeState state)
{
    switch (state) {
    case iox::SubscribeState::SUBSCRIBED: return "SUBSCRIBED";
    case iox::SubscribeState::WAIT_FOR_OFFER: return "WAIT_FOR_OFFER";
    default: return "neither SUBSCRIBED nor WAIT_FOR_OFFER";
    }
}

// Arguments: publisher's policy (discard, wait or none for no publisher), subscriber's policy (discard or block).
int main(int, char** arguments)
{
    const std::string_view publishing{arguments[1]}, subscribing{arguments[2]};
    iox::runtime::PoshRuntime::initRuntime("finding");
    popo::PublisherOptions sending;
    if (publishing == "wait") {
        sending.subscriberTooSlowPolicy = popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER;
    }
    std::optional<popo::Publisher<std::uint64_t>> publisher;
    if (publishing != "none") {
        publisher.emplace(iox::capro::ServiceDescription{"a", "b", "c"}, sending);
    }
    popo::SubscriberOptions receiving;
    if (subscribing == "block") {
        receiving.queueFullPolicy = popo::QueueFullPolicy::BLOCK_PRODUCER;
    }
    popo::Subscriber<std::uint64_t> subscriber{{"a", "b", "c"}, receiving};
    int sent = 0, received = 0;
    bool has_subscribers = false;
    // RouDi connects ports every 100 ms.
    for (int round = 0; round < 30; round++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (publisher) {
            has_subscribers = publisher->hasSubscribers();
            if (has_subscribers || round >= 20) {
                publisher->publishCopyOf(7).and_then([&] { sent++; });
            }
        }
        while (!subscriber.take().has_error()) {
            received++;
        }
    }
    const char* const of_publisher = !publisher ? "does not exist" : has_subscribers ? "has subscribers" : "has no subscribers";
    const char* const of_sent = received == 0 ? "nothing received" : received < sent ? "some received" : "all received";
    std::printf("subscriber is %s; publisher %s; %s\n", name(subscriber.getSubscriptionState()), of_publisher,
                sent == 0 ? "nothing sent" : of_sent);
}
END
lib=$(dirname "$(find "$place/root" -name 'libiceoryx_posh.so.2*' | head -n 1)")
export LD_LIBRARY_PATH=$lib
g++ -std=c++17 -I root/usr/include/iceoryx/v2.0.3 ports.cpp -o ports -L "$lib" -liceoryx_posh -liceoryx_hoofs -liceoryx_platform \
    -pthread -Wl,-rpath-link,"$lib"

cat >with-roudi.sh <<'END'
mount -t tmpfs -o size=1g none /dev/shm
mount -t tmpfs none /tmp
root/usr/bin/iox-roudi >roudi.log 2>&1 &
roudi=$!
for _ in $(seq 600); do
    ! grep -q 'RouDi is ready for clients' roudi.log || break
    sleep 0.1
done
timeout 120 ./ports "$@" 2>&1 | grep '^subscriber is '
kill "$roudi"
wait "$roudi"
END
# With a /dev/shm and a /tmp of its own, as RouDi has.
run() { unshare --user --map-root-user --mount sh with-roudi.sh "$@"; }
none=$(run none block)
mismatch=$(run discard block)
both=$(run wait block)
printf 'iceoryx %s, subscriber with BLOCK_PRODUCER\n' "$version"
printf '%s: %s\n' 'no publisher' "$none" 'publisher with DISCARD_OLDEST_DATA' "$mismatch" 'publisher with WAIT_FOR_CONSUMER' "$both"
subscribed='subscriber is SUBSCRIBED; publisher'
if [[ $none != "$subscribed does not exist; nothing sent" || $mismatch != "$subscribed has no subscribers; nothing received" ||
    $both != "$subscribed has subscribers; all received" ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
