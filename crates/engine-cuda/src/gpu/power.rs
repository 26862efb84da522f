//! A GPU's power, clock and temperature while work is done, through NVIDIA's management library
//! (NVML), loaded at run time.

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time from one sample to the next.
const PERIOD: Duration = Duration::from_millis(20);

/// Samples a GPU's sensors on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct PowerMeter {
    samples: Arc<Mutex<Vec<Sample>>>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the sensors say at a moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    milliwatts: u32,
    clock_mhz: Option<u32>,
    celsius: Option<u32>,
    /// Since the driver was loaded.
    millijoules: Option<u64>,
}

/// What was measured from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// Seconds from the first sample to the last.
    pub seconds: f64,
    /// Samples.
    pub samples: usize,
    /// Mean of what the power sensor said, in watts. Since Ampere the sensor itself says the mean
    /// of the last second, so spans should be longer than that, or `joules` be used.
    pub watts: f64,
    /// The highest of it.
    pub watts_max: f64,
    /// Energy by the GPU's own counter, in joules, where it has one.
    pub joules: Option<f64>,
    /// Mean clock of the multiprocessors, in MHz.
    pub clock_mhz: Option<f64>,
    /// Highest temperature, in degrees Celsius.
    pub celsius_max: Option<u32>,
}

impl Power {
    /// Mean power in watts: by the energy counter, where there is one that has moved, else by the
    /// sensor.
    #[must_use]
    pub fn mean_watts(&self) -> f64 {
        match self.joules {
            Some(joules) if joules > 0.0 && self.seconds > 0.0 => joules / self.seconds,
            _ => self.watts,
        }
    }
}

impl PowerMeter {
    /// Starts to sample the GPU at a place on the PCI bus, such as "0000:01:00.0": the driver and
    /// NVML number GPUs differently, and this they agree on.
    ///
    /// # Errors
    /// Why its power cannot be known, in words.
    pub fn start(pci_bus: &str) -> Result<PowerMeter, String> {
        let (stop, stopped) = channel::<()>();
        let (ready, started) = channel();
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (kept, pci_bus) = (samples.clone(), pci_bus.to_owned());
        let body = move || {
            let nvml = Nvml::init();
            let began = nvml.as_ref().map_err(ToString::to_string).and_then(|nvml| {
                let device = nvml.device_by_pci_bus_id(pci_bus);
                device
                    .and_then(|device| Ok((sample(&device)?, device)))
                    .map_err(|error| error.to_string())
            });
            let device = match began {
                Ok((first, device)) => {
                    lock(&kept).push(first);
                    let _ = ready.send(Ok(()));
                    device
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // A sensor that fails now and then leaves a gap.
                if let Ok(now) = sample(&device) {
                    lock(&kept).push(now);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("power".to_owned())
            .spawn(body);
        let thread = thread.map_err(|error| format!("no thread for the power meter: {error}"))?;
        match started.recv() {
            Ok(Ok(())) => Ok(PowerMeter {
                samples,
                stop: Some(stop),
                thread: Some(thread),
            }),
            Ok(Err(error)) => Err(format!("the GPU's power is not known: NVML: {error}")),
            Err(_) => Err("the GPU's power is not known: NVML failed".to_owned()),
        }
    }

    /// What was measured between two moments; nothing where there are fewer than two samples.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Option<Power> {
        summarize(&lock(&self.samples), from, to)
    }
}

impl Drop for PowerMeter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(samples: &Mutex<Vec<Sample>>) -> std::sync::MutexGuard<'_, Vec<Sample>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the sensors. Only power must be there.
fn sample(device: &Device<'_>) -> Result<Sample, NvmlError> {
    Ok(Sample {
        milliwatts: device.power_usage()?,
        clock_mhz: device.clock_info(Clock::SM).ok(),
        celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        millijoules: device.total_energy_consumption().ok(),
        at: Instant::now(),
    })
}

fn summarize(samples: &[Sample], from: Instant, to: Instant) -> Option<Power> {
    let within: Vec<&Sample> = samples
        .iter()
        .filter(|sample| (from..=to).contains(&sample.at))
        .collect();
    let (first, last) = match within.as_slice() {
        [first, .., last] => (first, last),
        _ => return None,
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let watts: Vec<f64> = within
        .iter()
        .map(|s| f64::from(s.milliwatts) / 1e3)
        .collect();
    let clocks: Vec<f64> = within
        .iter()
        .filter_map(|s| s.clock_mhz)
        .map(f64::from)
        .collect();
    let joules = match (first.millijoules, last.millijoules) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before) as f64 / 1e3),
        _ => None,
    };
    Some(Power {
        seconds: (last.at - first.at).as_secs_f64(),
        samples: within.len(),
        watts: mean(&watts),
        watts_max: watts.iter().copied().fold(0.0, f64::max),
        joules,
        clock_mhz: (!clocks.is_empty()).then(|| mean(&clocks)),
        celsius_max: within.iter().filter_map(|s| s.celsius).max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_at(at: Instant, milliwatts: u32, clock_mhz: Option<u32>) -> Sample {
        Sample {
            at,
            milliwatts,
            clock_mhz,
            celsius: clock_mhz.map(|mhz| mhz / 40),
            millijoules: clock_mhz.map(|mhz| u64::from(mhz) * 100),
        }
    }

    #[test]
    fn means_are_of_the_samples_between() {
        let start = Instant::now();
        let at = |tick| start + PERIOD * tick;
        let samples: Vec<Sample> = [
            (0, 900_000),
            (1, 100_000),
            (2, 200_000),
            (3, 600_000),
            (4, 0),
        ]
        .map(|(tick, milliwatts)| sample_at(at(tick), milliwatts, Some(1000 + 10 * tick)))
        .into();
        let power = summarize(&samples, at(1), at(3)).expect("three samples");
        assert_eq!(power.samples, 3);
        assert_eq!((power.watts, power.watts_max), (300.0, 600.0));
        assert_eq!(power.joules, Some(2.0));
        // The counter's 2 J in 0.04 s, not the sensor's mean, which lags.
        assert!((power.mean_watts() - 50.0).abs() < 1e-6);
        assert_eq!(power.clock_mhz, Some(1020.0));
        assert_eq!(power.celsius_max, Some(25));
        assert!((power.seconds - 0.04).abs() < 1e-9);
    }

    #[test]
    fn a_gpu_that_is_not_there_has_no_power() {
        let nowhere = PowerMeter::start("ffff:ff:1f.7").expect_err("there is no such place");
        assert!(
            nowhere.starts_with("the GPU's power is not known: "),
            "{nowhere}"
        );
    }

    #[test]
    fn what_no_sensor_says_is_left_out() {
        let start = Instant::now();
        let samples = [0, 1].map(|tick| sample_at(start + PERIOD * tick, 50_000, None));
        let power = summarize(&samples, start, start + PERIOD).expect("two samples");
        assert_eq!(
            (power.joules, power.clock_mhz, power.celsius_max),
            (None, None, None)
        );
        assert_eq!((power.watts, power.mean_watts()), (50.0, 50.0));
        assert_eq!(summarize(&samples[..1], start, start + PERIOD), None);
    }
}
