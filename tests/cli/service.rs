//! `serve` under a service manager: a socket that is open already, and words to the manager.

use std::{
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    process::{Command, Stdio},
    time::Duration,
};

use crate::Dir;

/// Makes its standard input the first socket of the service manager, for the program of its arguments.
const ACTIVATE: &str = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@""#;

#[test]
fn a_server_takes_the_socket_of_its_manager_and_says_when_it_is_ready_and_when_it_stops() {
    let dir = Dir::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/healthz", listener.local_addr().expect("an address"));
    let path = dir.path("manager");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let said = || {
        let mut text = [0; 200];
        let length = manager.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    // The port of the flag belongs to another program, so only the open socket can serve.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let own = dir.command(&["serve", "--data-dir", "data", "--no-worker", "--port", &port]);
    let mut command = Command::new("sh");
    command.args(["-c", ACTIVATE, "sh"]).arg(own.get_program()).args(own.get_args());
    crate::take_environment(&mut command, &own);
    command.current_dir(dir.path("")).env("NOTIFY_SOCKET", &path);
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    assert!(said().contains("READY=1"));
    assert_eq!(ureq::get(&url).call().expect("an answer").status(), 200);
    crate::running::signal("-TERM", child.id());
    assert!(said().contains("STOPPING=1"));
    assert!(child.wait().expect("it ends").success());
}
