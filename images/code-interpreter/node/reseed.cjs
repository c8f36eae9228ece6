// NODE_OPTIONS loads it into every program: the random numbers of a clone differ from those of its source.
"use strict";
const { watch } = require("fs");

/** Seeds the generators of this thread again, and drops numbers that were drawn in advance. */
function reseed() {
  const { randomInt, randomUUID } = require("crypto");
  const { setFlagsFromString } = require("v8");
  const { runInNewContext } = require("vm");
  // OpenSSL's: it seeds those of all threads from this one.
  require("./reseed.node")();
  for (let drawn = 0; drawn < 128; drawn += 1) randomUUID();
  for (let drawn = 0; drawn < 1024; drawn += 1) randomInt(2);
  // V8's: it seeds one for each realm, when that first needs a number.
  setFlagsFromString(`--random-seed=${randomInt(1, 2 ** 31)}`);
  Math.random = runInNewContext("Math.random(); Math.random");
  setFlagsFromString("--random-seed=0");
}

try {
  // The guest writes a file of it with each new identity of the sandbox.
  const identity = watch("/run/ramet", { persistent: false }, (_, file) => file === "generation" && reseed());
  identity.on("error", () => undefined);
} catch {
  // There is no such directory outside of a sandbox.
}

module.exports = { reseed };
