//! Forms with files: any bytes are read or refused, and what was read, written again, is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_protocol::http::multipart::{boundary, decode_name, parts};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (content_type, content) = input;
    let boundary = boundary(content_type).unwrap_or(b"b");
    let Ok(read) = parts(content, boundary).collect::<Result<Vec<_>, _>>() else {
        return;
    };
    let mut again = Vec::new();
    for part in &read {
        let mut name = Vec::new();
        decode_name(part.name, &mut name);
        assert!(name.len() <= part.name.len());
        again.extend_from_slice(b"--");
        again.extend_from_slice(boundary);
        again.extend_from_slice(b"\r\nContent-Disposition: form-data; name=\"");
        again.extend_from_slice(part.name);
        again.push(b'"');
        if let Some(file) = part.file {
            again.extend_from_slice(b"; filename=\"");
            again.extend_from_slice(file);
            again.push(b'"');
        }
        if let Some(content_type) = part.content_type {
            again.extend_from_slice(b"\r\nContent-Type: ");
            again.extend_from_slice(content_type);
        }
        again.extend_from_slice(b"\r\n\r\n");
        again.extend_from_slice(part.content);
        again.extend_from_slice(b"\r\n");
    }
    again.extend_from_slice(b"--");
    again.extend_from_slice(boundary);
    again.extend_from_slice(b"--");
    let once_more: Result<Vec<_>, _> = parts(&again, boundary).collect();
    // What was written may be longer than a part's fields may be.
    if let Ok(once_more) = once_more {
        assert_eq!(once_more, read);
    }
});
