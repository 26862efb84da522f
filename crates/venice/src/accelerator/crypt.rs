//! AES-GCM, by aws-lc.

use super::request::{Failure, Request, TAG_BYTES};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

fn key(request: &Request) -> Result<LessSafeKey, Failure> {
    let algorithm = match request.key().len() {
        16 => &AES_128_GCM,
        32 => &AES_256_GCM,
        _ => return Err(Failure::Key),
    };
    let key = UnboundKey::new(algorithm, request.key()).map_err(|_| Failure::Broken)?;
    Ok(LessSafeKey::new(key))
}

/// The authenticated bytes, and the others.
fn split<'a>(request: &Request, input: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Failure> {
    let associated = usize::try_from(request.associated_bytes).map_err(|_| Failure::Length)?;
    input.split_at_checked(associated).ok_or(Failure::Length)
}

/// Encrypts; a tag is behind what is written to `output`: how many bytes that is.
///
/// # Errors
/// [`Failure`].
pub(super) fn seal(request: &Request, input: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
    let (associated, text) = split(request, input)?;
    let bytes = text.len() + TAG_BYTES;
    let output = output.get_mut(..bytes).ok_or(Failure::Length)?;
    let (sealed, tag) = output.split_at_mut(text.len());
    sealed.copy_from_slice(text);
    let nonce = Nonce::assume_unique_for_key(request.nonce());
    let made = key(request)?.seal_in_place_separate_tag(nonce, Aad::from(associated), sealed);
    tag.copy_from_slice(made.map_err(|_| Failure::Broken)?.as_ref());
    Ok(bytes)
}

/// Decrypts what has a tag behind it: how many bytes were written to `output`. Where it is not
/// authentic, none are left there.
///
/// # Errors
/// [`Failure`].
pub(super) fn open(request: &Request, input: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
    let (associated, sealed) = split(request, input)?;
    let bytes = sealed.len().checked_sub(TAG_BYTES).ok_or(Failure::Length)?;
    let (sealed, tag) = sealed.split_at(bytes);
    let output = output.get_mut(..bytes).ok_or(Failure::Length)?;
    let nonce = Nonce::assume_unique_for_key(request.nonce());
    let aad = Aad::from(associated);
    let opened = key(request)?.open_separate_gather(nonce, aad, sealed, tag, output);
    if opened.is_err() {
        output.fill(0);
        return Err(Failure::NotAuthentic);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accelerator::request::Operation;

    fn bytes(digits: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(digit).collect()
    }

    fn request(operation: Operation, key: &str, nonce: &str, associated: usize) -> Request {
        let nonce = bytes(nonce).try_into().unwrap();
        let key = bytes(key);
        Request::of_cipher(operation, (&key, &nonce), associated as u64, 0).unwrap()
    }

    /// Key, nonce, authenticated bytes, text, what it is sealed, tag: test cases 2, 4, 14 and 16 of
    /// McGrew and Viega, The Galois/Counter Mode of Operation, appendix B.
    const CASES: [[&str; 6]; 4] = [
        [
            "00000000000000000000000000000000",
            "000000000000000000000000",
            "",
            "00000000000000000000000000000000",
            "0388dace60b6a392f328c2b971b2fe78",
            "ab6e47d42cec13bdf53a67b21257bddf",
        ],
        [
            "feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ],
        [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "000000000000000000000000",
            "",
            "00000000000000000000000000000000",
            "cea7403d4d606b6e074ec5d3baf39d18",
            "d0d1c8a799996bf0265b98b5d48ab919",
        ],
        [
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ],
    ];

    #[test]
    fn the_vectors_of_the_specification_are_met() {
        for [key, nonce, associated, text, sealed, tag] in CASES {
            let (associated, text) = (bytes(associated), bytes(text));
            let wanted = [bytes(sealed), bytes(tag)].concat();
            let mut output = vec![0xee; 200];
            let asked = request(Operation::Seal, key, nonce, associated.len());
            let input = [&associated[..], &text].concat();
            assert_eq!(seal(&asked, &input, &mut output), Ok(wanted.len()));
            assert_eq!(output[..wanted.len()], wanted);
            assert_eq!(output[wanted.len()..], [0xee; 200][wanted.len()..]);

            let mut input = [&associated[..], &wanted].concat();
            let asked = request(Operation::Open, key, nonce, associated.len());
            assert_eq!(open(&asked, &input, &mut output), Ok(text.len()));
            assert_eq!(output[..text.len()], text);
            // Of what is not authentic nothing is to be seen.
            for at in 0..input.len() {
                input[at] ^= 1;
                output.fill(0xee);
                let opened = open(&asked, &input, &mut output);
                assert_eq!(opened, Err(Failure::NotAuthentic), "{at}");
                assert!(output[..text.len()].iter().all(|byte| *byte == 0));
                input[at] ^= 1;
            }
        }
    }

    #[test]
    fn what_is_too_short_or_does_not_fit_is_refused() {
        let [key, nonce, ..] = CASES[0];
        let asked = request(Operation::Open, key, nonce, 3);
        let mut output = [0; 20];
        for input in [&[0; 2][..], &[0; 18], &[0; 3 + TAG_BYTES + 21]] {
            assert_eq!(open(&asked, input, &mut output), Err(Failure::Length));
        }
        let asked = request(Operation::Seal, key, nonce, 0);
        assert_eq!(seal(&asked, &[0; 5], &mut output), Err(Failure::Length));
    }
}
