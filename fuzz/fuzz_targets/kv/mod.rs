//! What must hold of any bytes, whichever parser of the key-value store they come to.

use rhythm_kv::wire::{Commands, Kind, Protocol, Rules, Stream, parse};

/// Parses bytes at once and in two pieces: every span lies in the bytes, no more is taken than
/// there is, and both ways make as many commands.
pub fn check(protocol: Protocol, data: &[u8]) {
    let Some((&at, bytes)) = data.split_first() else {
        return;
    };
    let rules = Rules {
        item_max: 4096,
        ..Rules::default()
    };
    let begin = Stream {
        protocol,
        ..Stream::default()
    };
    let whole = run(&rules, begin, &[bytes]);
    let at = usize::from(at).min(bytes.len());
    let (first, second) = bytes.split_at(at);
    assert_eq!(run(&rules, begin, &[first, second]), whole);
}

/// The keys and the kinds of the commands in pieces, as a connection gets them.
fn run(rules: &Rules, mut stream: Stream, pieces: &[&[u8]]) -> Vec<(Vec<u8>, &'static str)> {
    let mut input = Vec::new();
    let mut seen = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut commands = Commands::default();
        let parsed = parse(&mut stream, rules, &input, usize::MAX, &mut commands);
        assert!(parsed.consumed <= input.len());
        for command in &commands.list {
            assert!(command.start as usize <= input.len());
            let key = command.key.of(&input, &commands.decoded).to_vec();
            let kind = match command.kind {
                Kind::Store { store, .. } => {
                    store.value.of(&input);
                    "store"
                }
                Kind::Meta { index, .. } => {
                    let flags = &commands.meta[index as usize];
                    flags.text.of(&input);
                    flags.store.map(|store| store.value.of(&input).len());
                    "meta"
                }
                Kind::Binary { index } => {
                    let _ = commands.binary[index as usize];
                    "binary"
                }
                Kind::Say(text) => text,
                _ => "other",
            };
            seen.push((key, kind));
        }
        input.drain(..parsed.consumed);
    }
    seen
}
