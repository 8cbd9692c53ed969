
/// Puts the program that the environment names in front of the nodes, and its ports in place of theirs.
fn put_in_front(servers: &mut [RedisServer]) -> Option<process::Child> {
    let program = env::var_os("REDOUBLE_IN_FRONT")?;
    let nodes: Vec<String> = servers.iter().map(|server| server.addr.to_string()).collect();
    let file = servers[0].tempdir.path().join("ports-in-front");
    let front = process::Command::new(program)
        .args(["--upstream-cluster", &format!("redis://{}", nodes.join(",")), "--port", "0"])
        .args(["--exit-with-parent", "yes", "--logfile", "front.log", "--port-file"])
        .arg(&file)
        .arg("--dir")
        .arg(servers[0].tempdir.path())
        .spawn()
        .expect("it starts");
    let mut ports = String::new();
    for _ in 0..500 {
        ports = std::fs::read_to_string(&file).unwrap_or_default();
        if ports.ends_with('\n') {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    let ports: Vec<u16> = ports.lines().map(|line| line.trim().parse().expect("a port")).collect();
    assert!(ports.len() >= servers.len(), "ports in front: {ports:?}");
    for (server, port) in servers.iter_mut().zip(ports) {
        server.addr = ClusterType::build_addr(port);
    }
    Some(front)
}
