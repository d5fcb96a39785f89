//! Another user who prepares the places where processes of this user meet. If the tests cannot switch users, this user
//! does the same, except for what is refused only because of its owner.

use crate::common::traces::{cpu_time, workers};
use crate::common::{Known, LONGEST, Tripmeter, alone, folder, say, transports};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tripmeter_model::exit;
use tripmeter_model::name::process_place;

const STRANGER: u32 = 65_534;

/// Folder with the permissions of /tmp.
fn temporary() -> TempDir {
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    folder
}

fn python(script: &str, place: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(place).stdin(Stdio::null());
    command
}

/// Starts a script of the other user in a folder; false if it runs as this user.
fn stranger(script: &str, place: &Path) -> (Child, bool) {
    match python(script, place).uid(STRANGER).gid(STRANGER).spawn() {
        Ok(child) => (child, true),
        Err(error) => {
            say(&format!("REDUCED: no other user here ({error}): this one does it"));
            (python(script, place).spawn().unwrap(), false)
        }
    }
}

/// Runs a script of the other user to its end; false if it runs as this user.
fn strange(script: &str, place: &Path) -> bool {
    let (mut child, is_stranger) = stranger(script, place);
    assert!(child.wait().unwrap().success(), "{script}");
    is_stranger
}

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn run(place: &Path, results: &Path) -> Tripmeter {
    let output = results.display().to_string();
    Tripmeter::new(["ping", "-q", "uds", "--no-floor", "-n", "10", "--payloads", "16", "-o", &output]).temporary(place)
}

/// A listener in the leaders' place is ignored unless it belongs to this user.
#[test]
fn a_follower_comes_to_nobody_else() {
    let place = temporary();
    let user = user();
    let script = format!(
        "import os, socket, sys\n\
         os.umask(0)\n\
         os.mkdir('tripmeter-{user}')\n\
         sockets = []\n\
         for name in ['tripmeter-{user}/rendezvous-default', 'tripmeter-rendezvous-{user}-default']:\n\
         \x20   sockets.append(socket.socket(socket.AF_UNIX)); sockets[-1].bind(name); sockets[-1].listen()\n\
         open('ready', 'w').close()\n\
         sockets[0].accept(); open('came', 'w').close()\n"
    );
    let (mut listener, _) = stranger(&script, place.path());
    while !place.path().join("ready").exists() {
        assert!(matches!(listener.try_wait(), Ok(None)));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let follower = Tripmeter::new(["follow", "--timeout", "2"]).temporary(place.path()).run();
    follower.with(exit::UNAVAILABLE).says(&["no leader came"]);
    assert!(!place.path().join("came").exists());
    listener.kill().unwrap();
    listener.wait().unwrap();
}

/// Taking the place of leader and follower does not keep them apart.
#[test]
fn leader_and_follower_meet_whatever_stands_in_their_place() {
    let _alone = alone();
    let user = user();
    for taken in ["os.mkdir(name, 0o777)", "os.symlink('/nowhere', name)", "os.mkfifo(name)", "open(name, 'w').close()"]
    {
        let (place, results) = (temporary(), folder());
        strange(&format!("import os; name = 'tripmeter-{user}'; os.umask(0); {taken}"), place.path());
        let output = results.path().display().to_string();
        let words = ["ping", "-q", "--rendezvous", "uds", "--no-floor", "-n", "10", "--payloads", "16", "-o", &output];
        let leader = Tripmeter::new(words).temporary(place.path()).start();
        let follower = Tripmeter::new(["follow"]).temporary(place.path()).start();
        leader.wait(LONGEST).with(exit::GOOD);
        follower.wait(LONGEST).with(exit::GOOD);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "only what was there is left");
    }
}

/// Knowing a process's identity from /proc, another user cannot block it by taking names that begin with it.
#[test]
fn a_run_makes_names_that_nobody_can_take_first() {
    let (place, results) = (temporary(), folder());
    // This script becomes the run, so that the identity is known in advance.
    let script = format!(
        "import os, sys\n\
         start = open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19]\n\
         boot = int(open('/proc/sys/kernel/random/boot_id').read(8), 16)\n\
         time = os.stat('/proc/self/ns/time').st_ino\n\
         place = os.stat('/proc/self/ns/pid').st_ino ^ boot ^ (time << 16 | time >> 16) & 0xffffffff\n\
         name = f'tripmeter-{{place:x}}-{{os.getpid()}}-{{start}}'\n\
         os.umask(0)\n\
         os.mkdir(name)\n\
         try: os.chown(name, {STRANGER}, {STRANGER})\n\
         except OSError: pass\n\
         open(f'/dev/shm/{{name}}-1-0', 'w').close()\n\
         os.execv(sys.argv[1], sys.argv[1:])\n"
    );
    let output = results.path().display().to_string();
    let words = ["ping", "-q", "shm", "--no-floor", "-n", "10", "--payloads", "16", "-o", &output];
    Tripmeter::under(&["python3", "-c", &script], words)
        .temporary(place.path())
        .at(place.path())
        .run()
        .with(exit::GOOD);
}

/// Files in place of daemons' leases kill, create and change nothing.
#[test]
fn leases_that_others_wrote_are_not_believed() {
    let _alone = alone();
    let (place, results, elsewhere) = (temporary(), folder(), folder());
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    let place_of_names = process_place();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let identity = format!("tripmeter-{place_of_names:x}-{}-{start}", victim.id());
    let script = format!(
        "import os\n\
         os.umask(0)\n\
         for folder in ['tripmeter-{user}', 'tripmeter-daemons-{user}']:\n\
         \x20   os.mkdir(folder)\n\
         \x20   for name in ['daemon-iox-roudi', 'iox-roudi']:\n\
         \x20       open(folder + '/' + name, 'w').write('{} {identity}' if 'daemons' not in folder else '{identity}')\n\
         \x20   os.symlink('{}', folder + '/daemon-link')\n",
        boot.trim(),
        elsewhere.path().join("made").display(),
        user = user()
    );
    strange(&script, place.path());
    run(place.path(), results.path()).run().with(exit::GOOD);
    assert!(matches!(victim.try_wait(), Ok(None)), "the victim was killed");
    assert!(!elsewhere.path().join("made").exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Plugins next to the program are ignored if somebody could have put them there who cannot replace the program.
#[test]
fn plugins_of_strangers_beside_the_program_are_left_out() {
    let place = folder();
    let place = place.path().canonicalize().unwrap();
    let (program, plugins) = (place.join("bin/tripmeter"), place.join("transports"));
    fs::create_dir(place.join("bin")).unwrap();
    // In another process: a process started from here meanwhile would hold the file open for writing.
    assert!(
        Command::new("cp")
            .args([env!("CARGO_BIN_EXE_tripmeter"), "bin/"])
            .current_dir(&place)
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(&plugins).unwrap();
    let file = |name: &str, mode: u32| {
        let file = plugins.join(name);
        fs::write(&file, "no library").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    };
    let told = || {
        let mut list = Command::new(&program);
        list.args(["list", "--json"]).env("TRIPMETER_TRANSPORTS", "").env("XDG_DATA_HOME", place.join("data"));
        let output = list.output().unwrap();
        let is_known = String::from_utf8(output.stdout).unwrap().contains("\"other\"");
        (is_known, String::from_utf8(output.stderr).unwrap())
    };
    let is_left_out = |why: &str| {
        let (is_known, told) = told();
        let named = format!("transports in '{}' are left out: ", plugins.display());
        assert!(!is_known && told.contains(&named) && told.contains(why), "{is_known}: {told}");
    };
    let plugin = file("tripmeter_other.so", 0o644);
    // A file that does not belong to a plugin.
    file("README.md", 0o666);
    let (is_known, said) = told();
    assert!(is_known && !said.contains("left out"), "{said}");
    file("tripmeter_other.so", 0o646);
    is_left_out("tripmeter_other.so' has mode 646: others can write it");
    file("tripmeter_other.so", 0o644);
    fs::set_permissions(&plugins, Permissions::from_mode(0o777)).unwrap();
    is_left_out("has mode 777: others can write it");
    fs::set_permissions(&plugins, Permissions::from_mode(0o755)).unwrap();
    if std::os::unix::fs::chown(&plugin, Some(STRANGER), None).is_ok() {
        is_left_out(&format!("tripmeter_other.so' belongs to user {STRANGER}"));
    }
    fs::rename(&plugin, place.join("elsewhere.so")).unwrap();
    std::os::unix::fs::symlink(place.join("elsewhere.so"), &plugin).unwrap();
    is_left_out("tripmeter_other.so' is a link");
}

/// A lease of this user on a process of another user ends nothing.
#[test]
fn a_lease_on_a_process_of_somebody_else_is_kept_and_reported_at_once() {
    let _alone = alone();
    let (place, results) = (temporary(), folder());
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    let place_of_names = process_place();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let line = format!("{} tripmeter-{place_of_names:x}-{}-{start}", boot.trim(), victim.id());
    let script = format!(
        "import os\n\
         os.mkdir('tripmeter-{STRANGER}', 0o700)\n\
         open('tripmeter-{STRANGER}/daemon-iox-roudi', 'w').write('{line}\\n')\n"
    );
    let is_stranger = strange(&script, place.path());
    if is_stranger {
        fs::set_permissions(results.path(), Permissions::from_mode(0o777)).unwrap();
        let output = results.path().join("results").display().to_string();
        let words = ["ping", "uds", "--no-floor", "-n", "10", "--payloads", "16", "-o", &output];
        let user = [format!("--reuid={STRANGER}"), format!("--regid={STRANGER}")];
        let wrapper = ["setpriv", &user[0], &user[1], "--clear-groups"];
        let told = Tripmeter::under(&wrapper, words).temporary(place.path()).run().with(exit::GOOD);
        told.says(&["daemon 'iox-roudi'", &victim.id().to_string(), "belongs to another user", "keeps running"]);
        let lease = place.path().join(format!("tripmeter-{STRANGER}/daemon-iox-roudi"));
        assert_eq!(fs::read_to_string(lease).unwrap().trim(), line);
    } else {
        say("REDUCED: no other user here: only that a lease of somebody else ends nothing is tested");
    }
    assert!(matches!(victim.try_wait(), Ok(None)), "the victim was killed");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Folders that look left by a killed run, with lists that lead elsewhere.
#[test]
fn leftovers_of_others_remove_nothing_and_hang_nothing() {
    let _alone = alone();
    let (place, results) = (temporary(), folder());
    let kept = format!("tripmeter-test-kept-{}", std::process::id());
    let file = Path::new("/dev/shm").join(&kept);
    fs::write(&file, "x").unwrap();
    let (inode, place_of_names) = (fs::metadata(&file).unwrap().ino(), process_place());
    let script = format!(
        "import os\n\
         os.umask(0)\n\
         for number, what in enumerate(['names', 'fifo', 'zero']):\n\
         \x20   folder = f'tripmeter-{place_of_names:x}-{{4000000 + number}}-1'\n\
         \x20   os.mkdir(folder)\n\
         \x20   for name in ['queues', 'shared-memory']:\n\
         \x20       path = folder + '/' + name\n\
         \x20       if what == 'names': open(path, 'w').write('{inode} {kept}\\n')\n\
         \x20       if what == 'fifo': os.mkfifo(path)\n\
         \x20       if what == 'zero': os.symlink('/dev/zero', path)\n"
    );
    let is_stranger = strange(&script, place.path());
    run(place.path(), results.path()).run().with(exit::GOOD);
    let left = fs::read_dir(place.path()).unwrap().count();
    if is_stranger {
        assert!(file.exists() && left == 3, "what is another user's is left: {left}");
    }
    let _ = fs::remove_file(file);
}

/// Names in shared memory and in the temporary folder are accessible only by their user, whatever the umask and system.
#[test]
fn nobody_else_can_open_what_a_run_makes() {
    let _alone = alone();
    let reachable = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let open = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.mode() & 0o077 != 0));
        open.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let wanted = [
        "shm",
        "ecal/shm",
        "ecal/shm-zero-copy",
        "fastdds/shm",
        "fastdds/data-sharing",
        "iceoryx2",
        "ros2/shm",
        "zenoh/shm",
    ];
    let known = transports();
    let is_here = |name: &&&str| {
        let (system, variant) = name.split_once('/').unwrap_or((name, ""));
        let here = |row: &&Known| row.system == system && row.available;
        known.iter().find(here).is_some_and(|row| row.variants.iter().any(|one| one.variant.starts_with(variant)))
    };
    for transport in wanted.iter().filter(|name| !is_here(name)) {
        say(&format!("SKIPPED: {transport} is not here"));
    }
    for transport in wanted.iter().filter(is_here) {
        let (place, results) = (folder(), folder());
        let before = reachable(Path::new("/dev/shm"));
        let output = results.path().display().to_string();
        let words = ["ping", "-q", transport, "--no-floor", "-n", "100000000", "--payloads", "1k", "-o", &output];
        let wrapper = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];
        let mut run = Tripmeter::under(&wrapper, words).temporary(place.path()).start();
        run.until("samples", |run| workers(run.pid()).leader.is_some_and(|pid| cpu_time(pid) > Duration::from_secs(2)));
        // On a busy machine the path proof may still run, in which eCAL creates some of them. They are closed with the
        // leader's next message, at least once a second.
        run.until("closed", |_| {
            let mut found = reachable(Path::new("/dev/shm"));
            // The tracing library of ROS 2 creates it for all programs.
            found.retain(|name| !before.contains(name) && !name.starts_with("lttng-ust-wait"));
            found.extend(reachable(place.path()));
            found.is_empty()
        });
        run.signal("INT");
        run.wait(LONGEST).with(exit::INTERRUPTED).clean();
    }
}
