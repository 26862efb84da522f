//! WebSockets between a client that people have and a server of the test's, for as long as is said.
//!
//! Needs Node.js, whose client is a browser's; without it nothing is tested.
//! RHYTHM_WEBSOCKET_SECONDS is for how long messages pass.

use super::folder;
use crate::server::Server;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Says to whoever connects what he says, frame by frame.
const ECHO: &str = r#"
const { createHash } = require("crypto");
const server = require("http").createServer().on("upgrade", (request, socket) => {
    const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" +
        `Connection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    let input = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (piece) => {
        input = Buffer.concat([input, piece]);
        for (;;) {
            if (input.length < 2) return;
            const short = input[1] & 127;
            const head = short < 126 ? 2 : short === 126 ? 4 : 10;
            if (input.length < head + 4) return;
            const length = short < 126 ? short
                : short === 126 ? input.readUInt16BE(2) : Number(input.readBigUInt64BE(2));
            const end = head + 4 + length;
            if (input.length < end) return;
            const mask = input.subarray(head, head + 4);
            const said = Buffer.from(input.subarray(head + 4, end));
            for (let at = 0; at < length; at++) said[at] ^= mask[at % 4];
            const answer = Buffer.from(input.subarray(0, head));
            answer[1] &= 127;
            socket.write(Buffer.concat([answer, said]));
            const isClose = (input[0] & 15) === 8;
            input = input.subarray(end);
            if (isClose) return socket.end();
        }
    });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;

/// Has several WebSockets say something and hear the same, and says how it was.
const CLIENT: &str = r#"
const [, url, seconds] = process.argv;
const until = Date.now() + 1000 * Number(seconds);
const lengths = [0, 1, 125, 126, 1000, 65535, 65536, 200000];
let [messages, closed] = [0, 0];
const wrong = (what) => { console.log("wrong: " + what); process.exit(1); };
for (let index = 0; index < 8; index++) {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    let turn = index, said;
    const say = () => {
        const length = lengths[turn++ % lengths.length];
        said = String.fromCharCode(97 + turn % 26).repeat(length);
        socket.send(turn % 2 ? said : new TextEncoder().encode(said));
    };
    socket.onopen = say;
    socket.onmessage = ({ data }) => {
        const heard = typeof data === "string" ? data : new TextDecoder().decode(data);
        if (heard !== said || (typeof data === "string") !== (turn % 2 === 1)) wrong("it differs");
        messages += 1;
        Date.now() < until ? say() : socket.close(1000, "over");
    };
    socket.onerror = () => wrong("an error");
    socket.onclose = ({ code, reason, wasClean }) => {
        if (code !== 1000 || reason !== "over" || !wasClean) wrong(`closed by ${code}`);
        closed += 1;
        if (closed === 8) console.log(messages);
    };
}
"#;

/// Whether Node.js is there, with its WebSockets; says so where it is not.
pub(super) fn has_node() -> bool {
    let script = "process.exit(typeof WebSocket === 'function' ? 0 : 1)";
    let ran = node(script).status();
    let has = ran.is_ok_and(|status| status.success());
    if !has {
        eprintln!("left out: there is no Node.js that has WebSockets");
    }
    has
}

fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.args(["--experimental-websocket", "--no-warnings", "-e", script]);
    command.stdin(Stdio::null());
    command
}

/// The server's process; killed when dropped.
struct Echo(Child, String);

impl Echo {
    fn start() -> Echo {
        let child = node(ECHO).stdout(Stdio::piped()).spawn();
        let mut echo = Echo(child.expect("it is installed"), String::new());
        let out = echo.0.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut echo.1).expect("text");
        echo
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // One that has ended cannot be killed any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_browsers_websockets_hear_what_they_say_for_as_long_as_they_like() {
    if !has_node() {
        return;
    }
    let seconds = std::env::var("RHYTHM_WEBSOCKET_SECONDS").unwrap_or_else(|_| "3".to_owned());
    let echo = Echo::start();
    // Each lasts for longer, since something is said.
    let service = format!(
        "[[proxy]]\nmatch = \"/**\"\nto = \"http://127.0.0.1:{}\"\n\
         tunnel_timeout = \"2s\"\npiece_timeout = \"2s\"\nanswer_timeout = \"2s\"\n",
        echo.1.trim()
    );
    let server = Server::start(&folder("websocket", &service), &[]);
    let url = format!("ws://{}/echo", server.address);
    let said = node(CLIENT)
        .args([&url, &seconds])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let messages = said.trim().parse::<u64>();
    eprintln!("{said} messages came back in {seconds} seconds");
    assert!(messages.is_ok_and(|messages| messages > 50), "{said}");
}
