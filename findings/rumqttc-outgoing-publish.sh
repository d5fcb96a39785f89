#!/usr/bin/env bash
# rumqttc 0.25.1 (crates.io) reports Outgoing::Publish for a message over its default packet size, which it never sends.
#
# Guess: publish, or poll, refuses a message over max_outgoing_packet_size (10,240 bytes), and Outgoing::Publish(id) of poll means
# that the message was written to the connection.
# Seen: publish of 20,000 bytes (QoS 1) is Ok. poll gives OutgoingPacketTooLarge and has closed the connection; the next poll
# connects again, and the one after that gives Outgoing(Publish(1)). The broker never sees that message; the next, small one, has
# id 2 and arrives.
# Users meet this where a program counts Outgoing::Publish as sent, or logs an error of poll and goes on: a message is missing, and
# the only trace is one error and a reconnection. Set the sizes with MqttOptions::set_max_packet_size.
# Source: src/state.rs: outgoing_publish queues the event before the packet is written; nothing takes it out where writing fails.
# bytebeamio/rumqtt#296 and #924 are of users who met the default size.
#
# Needs Debian 12, cargo and unshare (util-linux). Installs into a temporary folder only; cargo's downloads stay in its own cache.
set -euo pipefail

broker=2.0.11-1.2+deb12u2
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download mosquitto="$broker" libwrap0=7.6.q-32 libdlt2=2.18.8-6 libcjson1 libnsl2=1.3.0-2 libtirpc3 >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

mkdir -p program/src
cat >program/Cargo.toml <<'END'
[package]
name = "program"
version = "0.1.0"
edition = "2021"
[dependencies]
rumqttc = { version = "=0.25.1", default-features = false }
tokio = { version = "=1.52.3", features = ["macros", "rt", "time"] }
[workspace]
END
cat >program/src/main.rs <<'END'
use rumqttc::{AsyncClient, Event, EventLoop, Incoming, MqttOptions, Outgoing, QoS};
use std::time::Duration;

fn client(name: &str, size: Option<usize>) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(name, "127.0.0.1", 1883);
    if let Some(size) = size {
        options.set_max_packet_size(size, size);
    }
    AsyncClient::new(options, 10)
}

async fn run(size: Option<usize>) {
    let (subscriber, mut received) = client("subscriber", Some(1 << 20));
    subscriber.subscribe("t", QoS::AtLeastOnce).await.unwrap();
    while !matches!(received.poll().await.unwrap(), Event::Incoming(Incoming::SubAck(_))) {}

    let (publisher, mut events) = client("publisher", size);
    println!("publish of 20000 bytes: {:?}", publisher.publish("t", QoS::AtLeastOnce, false, vec![0; 20_000]).await);
    // Until the event of the large message, then until the small one is acknowledged.
    let mut small = false;
    loop {
        let event = events.poll().await;
        match &event {
            Err(error) => println!("poll: error {error}"),
            Ok(Event::Incoming(Incoming::ConnAck(_))) => println!("poll: connected"),
            Ok(event) => println!("poll: {event:?}"),
        }
        match event {
            Ok(Event::Outgoing(Outgoing::Publish(_))) if !small => {
                small = true;
                println!("publish of 5 bytes: {:?}", publisher.publish("t", QoS::AtLeastOnce, false, vec![0; 5]).await);
            }
            Ok(Event::Incoming(Incoming::PubAck(ack))) if ack.pkid == 2 => break,
            _ => {}
        }
    }
    let mut sizes = Vec::new();
    while sizes.last() != Some(&5) {
        if let Event::Incoming(Incoming::Publish(message)) = received.poll().await.unwrap() {
            sizes.push(message.payload.len());
        }
    }
    println!("arrived: {sizes:?}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let size = std::env::args().nth(1).map(|size| size.parse().unwrap());
    tokio::time::timeout(Duration::from_secs(60), run(size)).await.expect("no end within 60 s");
}
END
timeout 900 cargo build --quiet --jobs 1 --manifest-path program/Cargo.toml --target-dir build >cargo.log 2>&1 || { cat cargo.log >&2; exit 69; }

printf 'listener 1883 127.0.0.1\nallow_anonymous true\nuser root\n' >broker.conf
# In a network of its own, with its own ports.
cat >run.sh <<'END'
ip link set lo up
lib=$PWD/root/usr/lib/$(uname -m)-linux-gnu:$PWD/root/lib/$(uname -m)-linux-gnu
LD_LIBRARY_PATH=$lib root/usr/sbin/mosquitto -v -c broker.conf >broker.log 2>&1 &
broker=$!
trap 'kill $broker; wait $broker || true' EXIT
for _ in {1..500}; do
    ! (: </dev/tcp/127.0.0.1/1883) 2>/dev/null || break
    sleep 0.02
done
build/debug/program "$@"
sed -n 's/.*mosquitto version \([^ ]*\) starting$/broker: Mosquitto \1/p; s/.*Received PUBLISH from publisher (.*, \(m[0-9]*\), .*(\([0-9]*\) bytes))/broker received \1 of \2 bytes/p' broker.log
END
run() { timeout 120 unshare --user --map-root-user --net bash run.sh "$@" 2>&1; }
default=$(run)
larger=$(run 100000)
printf 'rumqttc %s\ndefault sizes:\n%s\nsizes of 100000 bytes:\n%s\n' \
    "$(sed -n '/^name = "rumqttc"/{n;s/^version = "\(.*\)"/\1/p}' program/Cargo.lock)" "$default" "$larger"
if [[ $default != 'publish of 20000 bytes: Ok(())
poll: connected
poll: error '*'
poll: connected
poll: Outgoing(Publish(1))
publish of 5 bytes: Ok(())
poll: Outgoing(Publish(2))
poll: Incoming(PubAck(PubAck { pkid: 2 }))
arrived: [5]
broker: Mosquitto 2.0.11
broker received m2 of 5 bytes' ]]; then
    echo 'CHANGED: with default sizes' >&2
    exit 1
fi
if [[ $larger != *'arrived: [20000, 5]'*'broker received m1 of 20000 bytes'* || $larger == *error* ]]; then
    echo 'CHANGED: with larger sizes' >&2
    exit 1
fi
