//! What is known of commands: which only read, and which no page can use.

/// Commands that only read, of Redis 7 and of modules that many have: by default a cohort shares
/// their replies, and they are sent again where a connection is lost.
pub(super) const READS: &[&str] = &[
    "BF.EXISTS",
    "BF.MEXISTS",
    "BITCOUNT",
    "BITFIELD_RO",
    "BITPOS",
    "CF.EXISTS",
    "CMS.QUERY",
    "DBSIZE",
    "DUMP",
    "ECHO",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXISTS",
    "EXPIRETIME",
    "FCALL_RO",
    "FT.SEARCH",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GEORADIUSBYMEMBER_RO",
    "GEORADIUS_RO",
    "GEOSEARCH",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HEXPIRETIME",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HPEXPIRETIME",
    "HPTTL",
    "HRANDFIELD",
    "HSCAN",
    "HSTRLEN",
    "HTTL",
    "HVALS",
    "INFO",
    "JSON.ARRINDEX",
    "JSON.ARRLEN",
    "JSON.GET",
    "JSON.MGET",
    "JSON.OBJKEYS",
    "JSON.OBJLEN",
    "JSON.STRLEN",
    "JSON.TYPE",
    "KEYS",
    "LASTSAVE",
    "LCS",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MEMORY USAGE",
    "MGET",
    "OBJECT ENCODING",
    "OBJECT FREQ",
    "OBJECT IDLETIME",
    "OBJECT REFCOUNT",
    "PEXPIRETIME",
    "PFCOUNT",
    "PING",
    "PTTL",
    "RANDOMKEY",
    "SCAN",
    "SCARD",
    "SDIFF",
    "SINTER",
    "SINTERCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "SORT_RO",
    "SRANDMEMBER",
    "SSCAN",
    "STRLEN",
    "SUBSTR",
    "SUNION",
    "TIME",
    "TOPK.LIST",
    "TOPK.QUERY",
    "TS.GET",
    "TS.MGET",
    "TS.MRANGE",
    "TS.RANGE",
    "TS.REVRANGE",
    "TTL",
    "TYPE",
    "XINFO CONSUMERS",
    "XINFO GROUPS",
    "XINFO STREAM",
    "XLEN",
    "XPENDING",
    "XRANGE",
    "XREAD",
    "XREVRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZDIFF",
    "ZINTER",
    "ZINTERCARD",
    "ZLEXCOUNT",
    "ZMSCORE",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCAN",
    "ZSCORE",
    "ZUNION",
];

/// Why a page cannot use some commands.
pub(super) struct Refused {
    names: &'static [&'static str],
    /// What is wrong with such a one, behind its name.
    pub(super) why: &'static str,
    pub(super) hint: &'static str,
}

const REFUSED: &[Refused] = &[
    Refused {
        names: &["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"],
        why: "goes over several steps of one connection, and many requests share each",
        hint: "a script, `[\"EVAL\", \"...\", 1, \"key\"]`, is done whole",
    },
    Refused {
        names: &[
            "SUBSCRIBE",
            "PSUBSCRIBE",
            "SSUBSCRIBE",
            "UNSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE",
            "MONITOR",
            "SYNC",
            "PSYNC",
            "REPLCONF",
        ],
        why: "makes a connection one that is told of things, and a page asks and is answered",
        hint: "keep what was told under a key: a list or a stream, say",
    },
    Refused {
        names: &[
            "BLPOP",
            "BRPOP",
            "BLMOVE",
            "BLMPOP",
            "BRPOPLPUSH",
            "BZPOPMIN",
            "BZPOPMAX",
            "BZMPOP",
            "WAIT",
            "WAITAOF",
        ],
        why: "waits, and all that is asked on its connection with it",
        hint: "the same without the B (LPOP, LMOVE, ZPOPMIN) does not wait",
    },
    Refused {
        names: &["SELECT", "AUTH", "HELLO"],
        why: "says who asks and where, which holds for all that share the connection",
        hint: "`url` of service.toml names user and database, `password_file` the password",
    },
    Refused {
        names: &["CLIENT", "RESET", "QUIT", "READONLY", "READWRITE", "ASKING"],
        why: "changes or ends its connection, and many requests share each",
        hint: "leave it to the server, which opens and closes its connections itself",
    },
    Refused {
        names: &["SHUTDOWN", "FAILOVER", "REPLICAOF", "SLAVEOF"],
        why: "is for whoever runs the server",
        hint: "redis-cli asks it of one",
    },
];

/// Why no page can use a command of these words, in capital letters, those that are known.
pub(super) fn refused(words: &[Option<String>]) -> Option<&'static Refused> {
    let name = words.first()?.as_deref()?;
    let is = |known: &&'static Refused| known.names.contains(&name);
    let waits = matches!(name, "XREAD" | "XREADGROUP") && blocks(words);
    match waits {
        true => REFUSED.iter().find(|known| known.names.contains(&"BLPOP")),
        false => REFUSED.iter().find(is),
    }
}

/// Whether a command that reads streams waits for more. What stands behind `STREAMS` are names.
fn blocks(words: &[Option<String>]) -> bool {
    let options = words.iter().map(|word| word.as_deref().unwrap_or_default());
    let mut options = options.take_while(|word| *word != "STREAMS");
    options.any(|word| word == "BLOCK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order_and_apart() {
        assert!(READS.is_sorted());
        for refused in REFUSED {
            let both = refused.names.iter().find(|name| READS.contains(name));
            assert_eq!(both, None);
        }
    }

    #[test]
    fn what_waits_is_refused_and_names_are_not() {
        let is_refused = |words: &str| {
            let words: Vec<_> = words.split(' ').map(|word| Some(word.to_owned())).collect();
            refused(&words).is_some()
        };
        assert!(is_refused("BLPOP X 0") && is_refused("XREAD BLOCK 0 STREAMS A 0"));
        assert!(!is_refused("XREAD STREAMS BLOCK 0") && !is_refused("GET MULTI"));
    }
}
