"""What Python's client libraries do with a server: HOST:PORT."""

import sys

import bmemcached
import pylibmc
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

where = sys.argv[1]
host, port = where.rsplit(":", 1)


def tell(name, act):
    try:
        print(name, repr(act()))
    except (MemcacheError, pylibmc.Error) as error:
        print(name, type(error).__name__)


def pymemcache():
    client = Client((host, int(port)), default_noreply=False, timeout=10)
    client.flush_all()
    large = b"x" * 900_000
    tell("set", lambda: client.set("a", b"1"))
    tell("set, 0 bytes", lambda: client.set("empty", b""))
    tell("set, large", lambda: client.set("large", large))
    tell("set, too large", lambda: client.set("b", b"x" * 2_000_000))
    tell("get", lambda: client.get("a"))
    tell("get, empty", lambda: client.get("empty"))
    tell("get, large", lambda: client.get("large") == large)
    tell("get, none", lambda: client.get("none", default="default"))
    tell("add", lambda: (client.add("a", b"2"), client.add("c", b"3")))
    tell("replace", lambda: (client.replace("a", b"4"), client.replace("none", b"5")))
    tell("append", lambda: (client.append("a", b"5"), client.append("none", b"6")))
    tell("prepend", lambda: (client.prepend("a", b"3"), client.get("a")))
    tell("incr", lambda: (client.incr("a", 10), client.decr("a", 400), client.incr("none", 1)))
    tell("incr, no number", lambda: client.incr("empty", 1))
    tell("gets, cas", lambda: client.cas("c", b"x", client.gets("c")[1]))
    tell("cas, other", lambda: client.cas("c", b"y", b"999999"))
    tell("cas, none", lambda: client.cas("none", b"y", b"1"))
    tell("set_many", lambda: client.set_many({f"m{i}": b"%d" % i for i in range(200)}))
    tell("get_many", lambda: sorted(client.get_many([f"m{i}" for i in range(300)]).items()))
    tell("touch", lambda: (client.touch("a", 100), client.touch("none", 100)))
    tell("expired", lambda: (client.set("e", b"x", expire=-1), client.get("e")))
    tell("delete", lambda: (client.delete("a"), client.delete("a")))
    tell("delete_many", lambda: client.delete_many([f"m{i}" for i in range(200)]))
    tell("key too long", lambda: client.get("k" * 251))
    client.set("quiet", b"1", noreply=True)
    client.incr("quiet", 4, noreply=True)
    tell("noreply", lambda: client.get("quiet"))
    tell("raw", lambda: client.raw_command(b"mg quiet v k t"))
    tell("stats", lambda: client.stats()[b"get_hits"])
    client.close()


def libmemcached(binary):
    client = pylibmc.Client([where], binary=binary)
    client.flush_all()
    tell("set", lambda: client.set("a", {"some": ["thing", 1]}))
    tell("get", lambda: client.get("a"))
    tell("add", lambda: (client.add("a", 1), client.add("n", 1)))
    tell("incr", lambda: (client.incr("n", 5), client.decr("n", 100)))
    tell("incr, none", lambda: client.incr("none"))
    tell("append", lambda: (client.set("t", "a"), client.append("t", "b"), client.get("t")))
    tell("replace, none", lambda: client.replace("none", "x"))
    tell("many", lambda: client.set_multi({f"m{i}": i for i in range(100)}))
    tell("many", lambda: sorted(client.get_multi([f"m{i}" for i in range(150)]).items()))
    tell("delete", lambda: (client.delete("a"), client.delete("a")))
    tell("too large", lambda: client.set("b", b"x" * 2_000_000))
    if not binary:
        client.behaviors["cas"] = True
        tell("cas", lambda: client.cas("n", "x", client.gets("n")[1]))
    client.disconnect_all()


def python_binary_memcached():
    client = bmemcached.Client((where,))
    client.flush_all()
    tell("set", lambda: client.set("a", "1"))
    tell("get", lambda: (client.get("a"), client.get("none")))
    tell("add", lambda: (client.add("a", "x"), client.add("b", "x")))
    tell("replace", lambda: (client.replace("a", "y"), client.replace("none", "y")))
    tell("incr", lambda: (client.incr("n", 5, default=7), client.incr("n", 5), client.decr("n", 2)))
    tell("cas", lambda: client.cas("a", "z", client.gets("a")[1]))
    tell("cas, other", lambda: client.cas("a", "z", 999_999))
    tell("many", lambda: client.set_multi({f"m{i}": str(i) for i in range(50)}))
    tell("many", lambda: sorted(client.get_multi([f"m{i}" for i in range(60)]).items()))
    tell("delete", lambda: (client.delete("a"), client.delete_multi([f"m{i}" for i in range(50)])))
    client.disconnect_all()


for name, run in [
    ("pymemcache", pymemcache),
    ("pylibmc", lambda: libmemcached(False)),
    ("pylibmc, binary", lambda: libmemcached(True)),
    ("python-binary-memcached", python_binary_memcached),
]:
    print(f"-- {name}")
    run()
