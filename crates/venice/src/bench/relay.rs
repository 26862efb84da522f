//! A hop on the way: a place whose connections go on to another, bytes as they come. It stands
//! where the paper has a router.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Where it is; it is there for as long as this process.
pub(super) fn start(to: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("relay".into()).spawn(move || {
        for near in listener.incoming().flatten() {
            // Who cannot be brought further sees that by the end of its connection.
            let _ = join(&near, to);
        }
    })?;
    Ok(address)
}

fn join(near: &TcpStream, to: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    for stream in [near, &far] {
        stream.set_nodelay(true)?;
    }
    pass(near.try_clone()?, far.try_clone()?)?;
    pass(far, near.try_clone()?)
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    thread::Builder::new().name("relay".into()).spawn(move || {
        // However it ends, neither side has more to say to the other.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn bytes_pass_both_ways_and_so_does_the_end() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = start(server.local_addr().expect("it has one")).expect("a port");
        let mut near = TcpStream::connect(relay).expect("it listens");
        let (mut far, _) = server.accept().expect("the relay comes");
        let mut text = [0; 4];
        near.write_all(b"ping").expect("it is taken");
        far.read_exact(&mut text).expect("it comes");
        assert_eq!(&text, b"ping");
        far.write_all(b"pong").expect("it is taken");
        near.read_exact(&mut text).expect("it comes");
        assert_eq!(&text, b"pong");
        drop(near);
        assert_eq!(far.read(&mut text).expect("its end"), 0);
    }
}
