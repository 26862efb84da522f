//! Finds the tones in a sum of them, by a donor's accelerator:
//!
//!     rhythm venice lend --accelerators fft --key-file KEY
//!     transform 127.0.0.1:7071 KEY
//!
//! With `--agent SOCKET`, by one that the agent of this machine borrows (docs/venice-monitor.md);
//! without arguments, by one of its own process.

use rhythm_venice::accelerator::borrower::{self, Accelerator, Job, Sharing};
use rhythm_venice::accelerator::fft::{Complex, from_bytes, to_bytes};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::agent::BorrowedAccelerator;
use rhythm_venice::agent::client::Client;
use rhythm_venice::loan::LoanKey;
use rhythm_venice::remote::Place;
use std::env;
use std::error::Error;
use std::f32::consts::TAU;
use std::fs;
use std::path::Path;
use std::time::Duration;

const POINTS: usize = 4096;
/// Periods in all points, and how loud.
const TONES: [(usize, f32); 3] = [(50, 1.0), (440, 0.5), (1000, 0.25)];

/// How long a loan is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Has a job done, wherever that is.
type Run = Box<dyn FnMut(&Job<'_>) -> Result<Vec<u8>, borrower::Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (capacity, sharing) = (POINTS * 8, Sharing::Shared);
    let mut run: Run = match &arguments[..] {
        [] => {
            let mut fft = Accelerator::local(Kind::Fft, capacity)?;
            Box::new(move |job: &Job<'_>| fft.run(job))
        }
        [flag, socket] if flag == "--agent" => {
            let client = Client::connect(Path::new(socket))?;
            let asker = client.asker();
            let fft = BorrowedAccelerator::borrow(&asker, Kind::Fft, sharing, capacity, PATIENCE);
            let mut fft = fft?;
            eprintln!("{} lends an accelerator", fft.donor());
            Box::new(move |job: &Job<'_>| {
                // All that was borrowed is given back when this connection ends.
                let _open = &client;
                fft.run(job)
            })
        }
        [donor, key] => {
            let place = Place::Tcp(donor.parse()?);
            let key = read_key(key)?;
            let mut fft = Accelerator::connect(&place, &key, Kind::Fft, sharing, capacity)?;
            Box::new(move |job: &Job<'_>| fft.run(job))
        }
        _ => {
            let usage = "transform, transform DONOR:PORT KEY-FILE, or transform --agent SOCKET";
            return Err(usage.into());
        }
    };
    let sum = |at: usize| {
        let tone = |(periods, loud)| loud * (TAU * (periods * at) as f32 / POINTS as f32).cos();
        Complex::new(TONES.into_iter().map(tone).sum(), 0.0)
    };
    let points: Vec<Complex<f32>> = (0..POINTS).map(sum).collect();
    let output = run(&Job::Transform {
        inverse: false,
        points: &to_bytes(&points),
    })?;
    for (periods, value) in from_bytes(&output)[..POINTS / 2].iter().enumerate() {
        let loud = value.norm() * 2.0 / POINTS as f32;
        if loud > 0.01 {
            println!("{periods:>5} periods: {loud:.2}");
        }
    }
    Ok(())
}

/// Reads the 64 digits that `rhythm venice lend` writes.
fn read_key(path: &str) -> Result<LoanKey, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let digits = text.trim();
    if digits.len() != 64 || !digits.is_ascii() {
        return Err("a key has 64 hexadecimal digits".into());
    }
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16)?;
    }
    Ok(LoanKey(key))
}
