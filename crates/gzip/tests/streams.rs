//! Streams made of any fragments and runs are the text again when another's hand inflates them.

use flate2::read::GzDecoder;
use proptest::prelude::*;
use rhythm_gzip::{Codebook, Stitcher};
use std::io::Read;
use std::ops::Range;

/// A part of an answer.
#[derive(Clone, Debug)]
enum Piece {
    Fragment(usize),
    Run(String),
}

/// Parts of an answer: of its run, or numbers of fragments.
type Parts = Vec<Result<Range<usize>, u32>>;

/// The answer's text, its run, and its parts.
fn answer(fragments: &[String], pieces: &[Piece]) -> (Vec<u8>, Vec<u8>, Parts) {
    let (mut text, mut run, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Fragment(index) => {
                let index = index % fragments.len();
                text.extend_from_slice(fragments[index].as_bytes());
                parts.push(Err(number(index)));
            }
            Piece::Run(part) => {
                text.extend_from_slice(part.as_bytes());
                parts.push(Ok(run.len()..run.len() + part.len()));
                run.extend_from_slice(part.as_bytes());
            }
        }
    }
    (text, run, parts)
}

/// Numbers of a service's fragments, of which a page has some.
fn number(index: usize) -> u32 {
    7 * index as u32 + 3
}

fn book(fragments: &[String]) -> Codebook {
    let numbered = fragments.iter().enumerate();
    let samples = fragments.iter().take(2).map(String::as_bytes);
    Codebook::new(
        numbered.map(|(index, text)| (number(index), text.as_bytes())),
        samples,
    )
}

fn stitch(stitcher: &mut Stitcher, book: &Codebook, run: &[u8], parts: &Parts) -> Vec<u8> {
    stitcher.begin(book);
    for part in parts {
        match part {
            Ok(part) => stitcher.run(book, run, part.clone()),
            Err(number) => stitcher.fragment(book, *number),
        }
    }
    stitcher.finish(book).to_vec()
}

fn inflate(stream: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder = GzDecoder::new(stream);
    decoder.read_to_end(&mut text).expect("a gzip stream");
    assert_eq!(decoder.into_inner(), b"", "nothing follows it");
    text
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "(<td class=\"(name|price)\">|</td></tr>\n|<tr>|[a-z]{1,5} |[0-9]{1,9}){0,60}",
        "\\PC{0,300}",
        "[ab]{0,900}",
        Just("x".repeat(700)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn they_inflate_to_the_text(
        fragments in prop::collection::vec(texts(), 1..12),
        answers in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![any::<usize>().prop_map(Piece::Fragment), texts().prop_map(Piece::Run)],
                0..40,
            ),
            1..4,
        ),
    ) {
        let book = book(&fragments);
        let mut stitcher = Stitcher::default();
        for pieces in answers {
            let (text, run, parts) = answer(&fragments, &pieces);
            let stream = stitch(&mut stitcher, &book, &run, &parts);
            prop_assert_eq!(inflate(&stream), text);
        }
    }
}

#[test]
fn matches_reach_as_far_as_they_may_and_no_farther() {
    let known = (0..900).map(|n| format!("{n:x}.")).collect::<String>();
    let fragments = [known.clone(), format!("begin {known} end")];
    let book = book(&fragments);
    let mut stitcher = Stitcher::default();
    // The fragments' distance grows beyond what a match can tell.
    for between in (28_000..34_000).step_by(97) {
        let filler = Piece::Run("0123456789".repeat(between / 10));
        let pieces = [
            Piece::Fragment(0),
            filler.clone(),
            Piece::Fragment(1),
            filler,
            Piece::Fragment(0),
        ];
        let (text, run, parts) = answer(&fragments, &pieces);
        let stream = stitch(&mut stitcher, &book, &run, &parts);
        assert_eq!(inflate(&stream), text, "{between}");
    }
}

#[test]
fn what_repeats_itself_may_stand_again() {
    for text in [" ".repeat(8000), "<td>&nbsp;</td>".repeat(1066)] {
        let fragments = [text];
        let book = book(&fragments);
        for head in 70..130 {
            let mut pieces = vec![Piece::Run((0..head).map(|n| format!("{n:x}")).collect())];
            pieces.extend((0..8).map(|_| Piece::Fragment(0)));
            let (text, run, parts) = answer(&fragments, &pieces);
            // Whose memory is as small as may be.
            let stream = stitch(&mut Stitcher::default(), &book, &run, &parts);
            assert_eq!(inflate(&stream), text, "{head}");
        }
    }
}

#[test]
fn rows_of_a_loop_take_little() {
    let fragments = [
        "<!doctype html><title>Catalogue</title><table class=\"items\">".to_owned(),
        "</td><td class=\"price\" data-currency=\"EUR\"><span class=\"amount\">".to_owned(),
        "</span></td></tr>\n<tr class=\"row\"><td class=\"title\">".to_owned(),
        "</table><p>Thank you for looking.</p>".to_owned(),
    ];
    let mut pieces = vec![Piece::Fragment(0)];
    for row in 0..200 {
        pieces.push(Piece::Fragment(2));
        pieces.push(Piece::Run(format!("Title {}", row * 7919 % 1000)));
        pieces.push(Piece::Fragment(1));
        pieces.push(Piece::Run(format!("{}.{:02}", row * 31 % 97, row % 100)));
    }
    pieces.push(Piece::Fragment(3));
    let (text, run, parts) = answer(&fragments, &pieces);
    let stream = stitch(&mut Stitcher::default(), &book(&fragments), &run, &parts);
    assert_eq!(inflate(&stream), text);
    assert!(
        stream.len() * 7 < text.len(),
        "{} of {}",
        stream.len(),
        text.len()
    );
}
