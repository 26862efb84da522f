//! The controller beside nginx with our module in it, from Debian's packages `nginx` and
//! `nginx-dev`: what nginx is asked says on which CPUs it runs.

use super::{BATCH, Controller, all_cpus, cpus_of, folder, until};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The module, built in this folder.
fn module(folder: &Path) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rpo/modules/nginx");
    let mut make = Command::new("make");
    make.arg("-C").arg(sources);
    make.arg(format!("OUT={}", folder.join("module").display()));
    let made = make.output().expect("make runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "it needs Debian's nginx-dev: {said}");
    folder.join("module/ngx_http_rpo_module.so")
}

/// An nginx of its own, with one worker, which has nothing to give.
struct Nginx {
    process: Child,
    port: u16,
    ring: PathBuf,
}

impl Nginx {
    fn start(folder: &Path) -> Nginx {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = free.expect("a free port").port();
        let (at, module, ring) = (folder.display(), module(folder), folder.join("ring"));
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|of| format!("{of}_temp_path {at}/{of};\n"));
        let text = format!(
            "load_module {};\nworker_processes 1;\npid {at}/pid;\nevents {{}}\nhttp {{\n{}\
             access_log off;\nrpo_ring {} 1024;\n\
             server {{\nlisten 127.0.0.1:{port};\nreturn 204;\n}}\n}}\n",
            module.display(),
            temporary.concat(),
            ring.display()
        );
        let conf = folder.join("nginx.conf");
        fs::write(&conf, text).expect("a file");
        // It ends with the test, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "nginx", "-g", "daemon off;", "-c"]);
        command.arg(conf).arg("-e").arg(folder.join("error.log"));
        let process = command.stdin(Stdio::null()).spawn();
        let process = process.expect("Debian's nginx");
        until("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Nginx {
            process,
            port,
            ring,
        }
    }

    /// Asks for a batch, one at a time.
    fn batch(&self, method: &str, path: &str) {
        for _ in 0..BATCH {
            let mut to = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
            let head = "Host: localhost\r\nConnection: close\r\n\r\n";
            write!(to, "{method} {path} HTTP/1.1\r\n{head}").expect("it reads");
            let mut answer = String::new();
            to.read_to_string(&mut answer).expect("it answers");
            assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        }
    }

    /// Whether its master and its worker have just these CPUs.
    fn has(&self, cpus: &[usize]) -> bool {
        let now = cpus_of(self.process.id());
        now.len() == 2 && now.iter().all(|own| own == cpus)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(super::pid(&self.process), super::Signal::TERM);
        let _ = self.process.wait();
    }
}

#[test]
fn nginx_is_switched_by_what_it_is_asked() {
    let Some(all) = all_cpus() else { return };
    let folder = folder("nginx");
    let nginx = Nginx::start(&folder);
    until("it has a worker", || nginx.has(&all));
    let (process, ring) = (nginx.process.id().to_string(), nginx.ring.clone());
    let ring = ring.to_str().expect("a path");
    let controller = Controller::start(&folder, all[0], &["--pid", &process, "--ring", ring]);
    controller.said("a ring is read");
    nginx.batch("POST", "/cart");
    until("one a core", || nginx.has(&all[..1]));
    nginx.batch("GET", "/item/7");
    until("all threads", || nginx.has(&all));
    let told = format!(
        "{} arrivals and completions told, 0 lost, 0 garbage; 0 under way; 15 classes",
        4 * BATCH
    );
    until("status knows", || controller.status().contains(&told));
}
