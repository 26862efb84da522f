//! The remote backend over real sockets: what a driver does must be what it expects of one.

use super::super::*;
use super::asking::all_answered;
use super::world::{ask, call, order};
use crate::backend::besim::BesimWire;
use crate::backend::http_client::{BackendUrl, ResponseLimits};
use crate::backend::kind::peers;
use rhythm_besim::Bank;
use rhythm_engine::cohort::Queries;
use rhythm_protocol::besim;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Columns of the answers to the query of this number, by its command.
fn columns_of(key: u64) -> u16 {
    [0, 1, 3, 7, 3, 3, 1, 1, 3, 6][key as usize % 10]
}

/// Answers on one connection. Of each 150 answers one announces the end, and nothing behind it is
/// carried out.
fn serve<S: Read + Write>(
    mut stream: S,
    finish: impl Fn(&S) -> std::io::Result<()>,
    bank: &Bank,
) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    let mut count = 0;
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        input.extend_from_slice(&piece[..length]);
        let mut output = Vec::new();
        while let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            let request: Vec<u8> = input.drain(..end + 4).collect();
            let query = request.strip_prefix(b"GET /besim?").expect("a request");
            let query = query.split(|byte| *byte == b' ').next().unwrap_or_default();
            let mut body = Vec::new();
            bank.answer(query, &mut body);
            count += 1;
            let last = count == 150;
            let connection = if last { "Connection: close\r\n" } else { "" };
            let length = body.len();
            write!(
                output,
                "HTTP/1.1 200 OK\r\n{connection}Content-Length: {length}\r\n\r\n"
            )?;
            output.extend_from_slice(&body);
            if last {
                stream.write_all(&output)?;
                finish(&stream)?;
                // So that what was sent behind does not reset the connection under the answers.
                while stream.read(&mut piece)? > 0 {}
                return Ok(());
            }
        }
        stream.write_all(&output)?;
    }
}

#[test]
fn a_backend_over_tcp_answers_all() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let finish = |stream: &TcpStream| stream.shutdown(Shutdown::Write);
            std::thread::spawn(move || serve(stream, finish, &Bank::new(5000)));
        }
    });
    answers_all(&format!("http://{address}/besim"));
}

#[test]
fn a_backend_at_a_unix_socket_answers_all() {
    let name = format!("rhythm-pool-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let finish = |stream: &UnixStream| stream.shutdown(Shutdown::Write);
            std::thread::spawn(move || serve(stream, finish, &Bank::new(5000)));
        }
    });
    answers_all(&format!("http://unix:{}:/besim", path.display()));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_backend_at_a_unix_socket_whose_queue_is_full_for_a_moment_answers_all() {
    let name = format!("rhythm-pool-full-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    // One may wait there, and does.
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        for stream in listener.incoming().map_while(Result::ok) {
            let finish = |stream: &UnixStream| stream.shutdown(Shutdown::Write);
            std::thread::spawn(move || serve(stream, finish, &Bank::new(5000)));
        }
    });
    answers_all(&format!("http://unix:{}:/besim", path.display()));
    std::fs::remove_file(&path).unwrap();
}

fn answers_all(url: &str) {
    let url: BackendUrl = url.parse().unwrap();
    let options = PoolOptions {
        connections_max: 3,
        depth_max: 64,
        timeout: Duration::from_secs(60),
        ..PoolOptions::default()
    };
    let wire = BesimWire::new(&url, ResponseLimits::default());
    let mut pool = ConnectionPool::new(wire, "sim", peers(&url.place, None).unwrap(), options);
    let text = |key: u64| format!("1&{}&{}", key % 10, key + 1);
    let answers = all_answered(&mut pool, 3000, 700, |pool, port, keys, now| {
        // Each has a form of its own, so that all commands are asked.
        for key in keys {
            let mut queries = Queries::default();
            assert!(queries.push(0, std::iter::empty()));
            let mut call = call(&[&text(key)], true);
            call.columns = columns_of(key);
            let batch = Batch {
                fields: &[],
                call: &call,
                queries: &queries,
                order: &order(&queries),
                asks: &[ask(0, key, key)],
                step: 0,
                deadline: Time::NEVER,
            };
            pool.submit(port, batch, now);
        }
    });
    let bank = Bank::new(5000);
    for key in 0..3000 {
        let text = text(key);
        let mut body = Vec::new();
        bank.answer(text.as_bytes(), &mut body);
        let mut expected = Vec::new();
        let columns = columns_of(key).into();
        let cell = |start: usize, length: usize| body[start..start + length].to_vec();
        let read = besim::decode(&body, columns, 4096, &mut expected, cell).unwrap();
        let expected = (i64::from(read.status), expected.concat());
        assert_eq!(answers[&key], Ok(expected), "{text}");
    }
}
