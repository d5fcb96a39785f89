//! The same queries on a Ballista cluster of two executors.

use crate::common::*;
use std::net::TcpStream;

#[test]
fn a_cluster_gives_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("archive").display().to_string();
    good(&["push", &measured().display().to_string(), &dest, "--machine", "lab"], None);
    let scheduler = format!("127.0.0.1:{}", free_port());
    let start = |arguments: &[&str]| Server(archive(arguments, None).spawn().unwrap());
    let _scheduler = start(&["scheduler", "--bind", &scheduler]);
    wait("scheduler", || TcpStream::connect(&scheduler).ok());
    let _executors: Vec<Server> = (0..2)
        .map(|_| {
            let bind = format!("127.0.0.1:{}", free_port());
            let executor = start(&["executor", "--scheduler", &scheduler, "--bind", &bind]);
            wait("executor", || TcpStream::connect(&bind).ok());
            executor
        })
        .collect();
    let engine = format!("ballista://{scheduler}");
    for sql in [
        P99,
        "SELECT run, sub_experiment, round, count(*), sum(rtt_ns), max(one_way_ns) FROM samples GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        "SELECT * FROM metrics ORDER BY run, sub_experiment, round, trial, stream, figure, statistic",
    ] {
        let of_cluster = good(&["query", &dest, sql, "--csv", "--engine", &engine], None);
        assert_eq!(of_cluster, good(&["query", &dest, sql, "--csv"], None));
    }
    let nobody = format!("ballista://127.0.0.1:{}", free_port());
    let (code, told) = refused(&["query", &dest, "SELECT 1", "--engine", &nobody], None);
    assert!(code == 69 && told.contains("cannot be reached"), "{told}");
}

#[test]
fn a_cluster_that_cannot_answer_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("archive").display().to_string();
    good(&["push", &measured().display().to_string(), &dest, "--machine", "lab"], None);
    let address = format!("127.0.0.1:{}", free_port());
    let _scheduler = Server(archive(&["scheduler", "--bind", &address], None).spawn().unwrap());
    wait("scheduler", || TcpStream::connect(&address).ok());
    let query = ["query", &dest, "SELECT count(*) FROM samples", "--csv", "--engine", &format!("ballista://{address}")];
    let (code, told) = refused(&query, None);
    assert!(code == 69 && told.contains("no executor has connected") && told.contains(&address), "{told}");
    let bind = format!("127.0.0.1:{}", free_port());
    let _executor = Server(archive(&["executor", "--scheduler", &address, "--bind", &bind], None).spawn().unwrap());
    wait("executor", || TcpStream::connect(&bind).ok());
    assert!(good(&query, None).contains("26000"));
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, told) = refused(&["executor", "--scheduler", &nobody, "--bind", &bind], None);
    assert!(code == 69 && told.contains("cannot be reached"), "{told}");
    let (code, told) = refused(&["executor", "--bind", "127.0.0.1:65535"], None);
    assert!(code == 64 && told.contains("name one up to 65534"), "{told}");
}
