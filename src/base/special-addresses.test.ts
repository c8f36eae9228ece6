import { expect, it } from "vitest";
import { notPublicAddresses, specialAddresses } from "./special-addresses.ts";

const copyOfLink = "../../native/link/internal/policy/special-addresses.json";

/** After a change, `npx vitest run --project unit src/base -u` writes the copy. */
it("is the list that link embeds", async () => {
  await expect(`${JSON.stringify(specialAddresses, undefined, 2)}\n`).toMatchFileSnapshot(copyOfLink);
});

it.each([
  "169.254.169.254",
  "168.63.129.16",
  "100.100.100.200",
  "192.0.0.192",
  "192.0.0.8",
  "198.19.255.255",
  "10.1.2.3",
  "240.0.0.1",
])("has no public address %s", (address) => {
  expect(notPublicAddresses().check(address, "ipv4")).toBe(true);
  expect(notPublicAddresses().check(`::ffff:${address}`, "ipv6")).toBe(true);
});

it.each(["8.8.8.8", "168.63.129.17", "192.0.1.1", "198.20.0.1", "223.255.255.255"])(
  "has the public address %s",
  (address) => {
    expect(notPublicAddresses().check(address, "ipv4")).toBe(false);
  },
);

it("includes the given ranges", () => {
  expect(notPublicAddresses(["8.8.0.0/16"]).check("8.8.8.8", "ipv4")).toBe(true);
  expect(notPublicAddresses(["8.8.0.0/16"]).check("8.9.8.8", "ipv4")).toBe(false);
});
