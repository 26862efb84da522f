//! Streams stitched from any fragments and runs inflate to the text that these are, and end there.
#![no_main]

use flate2::bufread::GzDecoder;
use libfuzzer_sys::fuzz_target;
use rhythm_gzip::{Codebook, Stitcher};
use std::io::Read;

/// Of each answer, a fragment or none before each text.
type Answers = Vec<Vec<(Option<u8>, Vec<u8>)>>;

fuzz_target!(|input: (Vec<Vec<u8>>, Answers)| {
    let (fragments, answers) = input;
    let numbered = fragments.iter().map(Vec::as_slice);
    let book = Codebook::new((0..).zip(numbered), []);
    let mut stitcher = Stitcher::default();
    for pieces in answers {
        let (mut text, mut run) = (Vec::new(), Vec::new());
        for (_, part) in &pieces {
            run.extend_from_slice(part);
        }
        stitcher.begin(&book);
        let mut at = 0;
        for (fragment, part) in &pieces {
            stitcher.run(&book, &run, at..at + part.len());
            at += part.len();
            text.extend_from_slice(part);
            let fragment = fragment.filter(|_| !fragments.is_empty());
            if let Some(fragment) = fragment {
                let fragment = usize::from(fragment) % fragments.len();
                stitcher.fragment(&book, fragment as u32);
                text.extend_from_slice(&fragments[fragment]);
            }
        }
        let mut decoder = GzDecoder::new(stitcher.finish(&book));
        let mut inflated = Vec::new();
        decoder.read_to_end(&mut inflated).expect("a gzip stream");
        assert_eq!(inflated, text);
        assert!(decoder.into_inner().is_empty());
    }
});
