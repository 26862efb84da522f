// What Go's gomemcache does with a server: HOST:PORT.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	client := memcache.New(os.Args[1])
	tell := func(name string, results ...any) { fmt.Println(name, fmt.Sprint(results...)) }
	get := func(key string) string {
		item, err := client.Get(key)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s %d", item.Value, item.Flags)
	}
	item := func(key, value string) *memcache.Item {
		return &memcache.Item{Key: key, Value: []byte(value)}
	}
	tell("ping", client.Ping())
	tell("flush", client.FlushAll())
	tell("set", client.Set(&memcache.Item{Key: "a", Value: []byte("1"), Flags: 77}), get("a"))
	tell("get, none", get("none"))
	tell("add", client.Add(item("a", "2")), client.Add(item("b", "2")))
	tell("replace", client.Replace(item("a", "3")), client.Replace(item("none", "3")))
	tell("append", client.Append(item("a", "4")), client.Append(item("none", "4")))
	tell("prepend", client.Prepend(item("a", "2")), get("a"))
	for _, delta := range []uint64{1, 1 << 40} {
		more, err := client.Increment("a", delta)
		less, other := client.Decrement("a", 2*delta)
		tell("incr", more, err, less, other)
	}
	_, err := client.Increment("none", 1)
	tell("incr, none", err)
	client.Set(item("text", "text"))
	_, err = client.Increment("text", 1)
	tell("incr, text", err)
	found, err := client.Get("b")
	if err == nil {
		found.Value = []byte("5")
		tell("cas", client.CompareAndSwap(found), get("b"))
		tell("cas, again", client.CompareAndSwap(found))
		client.Delete("b")
		tell("cas, none", client.CompareAndSwap(found))
	}
	tell("touch", client.Touch("a", 100), client.Touch("none", 100))
	item2, err := client.GetAndTouch("a", 100)
	tell("gat", err, item2 != nil)
	keys := []string{}
	for number := range 200 {
		key := fmt.Sprintf("m%d", number)
		keys = append(keys, key)
		if number%2 == 0 {
			client.Set(item(key, key))
		}
	}
	many, err := client.GetMulti(keys)
	names := []string{}
	for name := range many {
		names = append(names, name)
	}
	sort.Strings(names)
	tell("many", err, names)
	tell("large", client.Set(item("l", strings.Repeat("x", 900_000))), len(get("l")))
	tell("too large", client.Set(item("l", strings.Repeat("x", 2_000_000))), get("l"))
	tell("key", client.Set(item(strings.Repeat("k", 251), "")))
	tell("delete", client.Delete("a"), client.Delete("a"))
	tell("flush", client.DeleteAll(), get("text"))
}
