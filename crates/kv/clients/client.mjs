// What Node's memjs (binary) and memcached (ASCII) do with a server: HOST:PORT.

import { promisify } from "node:util";
import memjs from "memjs";
import Memcached from "memcached";

const where = process.argv[2];

async function tell(name, act) {
  try {
    console.log(name, JSON.stringify(await act()));
  } catch (error) {
    console.log(name, String(error.message ?? error));
  }
}

async function binary() {
  const client = memjs.Client.create(where, { retries: 0 });
  const get = async (key) => (await client.get(key)).value?.toString();
  await tell("flush", () => client.flush().then(Object.values));
  await tell("set", () => client.set("a", "1", { expires: 100 }));
  await tell("get", async () => [await get("a"), await get("none")]);
  await tell("add", async () => [await client.add("a", "x", {}), await client.add("b", "x", {})]);
  await tell("replace", () => client.replace("a", "2", {}));
  await tell("replace, none", () => client.replace("none", "2", {}));
  await tell("append", async () => [await client.append("a", "3"), await get("a")]);
  await tell("prepend", async () => [await client.prepend("a", "1"), await get("a")]);
  await tell("incr", () => client.increment("n", 5, { initial: 7 }));
  await tell("incr", () => client.increment("n", 5, {}));
  await tell("decr", () => client.decrement("n", 2, {}));
  await tell("touch", () => client.touch("a", 100));
  await tell("large", async () => [await client.set("l", "x".repeat(900_000), {})]);
  await tell("large", async () => (await get("l")).length);
  await tell("too large", () => client.set("l", "x".repeat(2_000_000), {}));
  await tell("delete", async () => [await client.delete("a"), await client.delete("a")]);
  client.close();
}

async function ascii() {
  const client = new Memcached(where, { retries: 0, timeout: 10_000 });
  const call = (name, ...args) => promisify(client[name].bind(client))(...args);
  await tell("flush", () => call("flush"));
  await tell("set", () => call("set", "a", "1", 100));
  await tell("get", async () => [await call("get", "a"), await call("get", "none")]);
  await tell("add", () => call("add", "a", "2", 100));
  await tell("replace", () => call("replace", "a", "3", 100));
  await tell("append", async () => [await call("append", "a", "4"), await call("get", "a")]);
  await tell("prepend", async () => [await call("prepend", "a", "2"), await call("get", "a")]);
  await tell("incr", async () => [await call("incr", "a", 10), await call("decr", "a", 1000)]);
  await tell("incr, none", () => call("incr", "none", 1));
  await tell("cas", async () => {
    const found = await call("gets", "a");
    return [await call("cas", "a", "x", found.cas, 100), await call("cas", "a", "y", found.cas, 0)];
  });
  await tell("many", async () => {
    for (let i = 0; i < 50; i++) await call("set", `m${i}`, { i }, 100);
    return call("getMulti", Array.from({ length: 60 }, (_, i) => `m${i}`));
  });
  await tell("touch", () => call("touch", "a", 100));
  await tell("delete", async () => [await call("del", "a"), await call("del", "a")]);
  client.end();
}

console.log("-- memjs");
await binary();
console.log("-- memcached");
await ascii();
