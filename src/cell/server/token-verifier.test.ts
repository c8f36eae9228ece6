import { expect, it } from "vitest";
import { RametError } from "../../base/errors.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken, type CellKey } from "../client/cell-token.ts";
import { tokenVerifier } from "./token-verifier.ts";

const newKey = (): CellKey => cellKeyFromPem(newCellKeyPem());
const [controller, gateway, stranger] = [newKey(), newKey(), newKey()];
const keys = { publicKey: controller.publicKey, gatewayKey: gateway.publicKey };
const sandboxUid = "11111111-2222-4333-8444-555555555555";

async function verdict(key: CellKey, operation: string, asked = operation, of = keys as { publicKey: string }) {
  const authorization = `Bearer ${await signCellToken(key, { sandboxUid, operation })}`;
  const verified = tokenVerifier(of, sandboxUid).verify(authorization, asked);
  return verified.then(
    () => "passes",
    (error: unknown) => RametError.from(error).code,
  );
}

it("accepts a gateway's token for ports only", async () => {
  expect(await verdict(gateway, "ports")).toBe("passes");
  for (const operation of ["checkpoint", "stop", "state"]) {
    expect(await verdict(gateway, operation)).toBe("Forbidden");
    expect(await verdict(gateway, "*", operation)).toBe("Forbidden");
    expect(await verdict(gateway, "ports", operation)).toBe("Forbidden");
  }
});

it("accepts a controller's token for every operation, and rejects a forged one", async () => {
  expect(await verdict(controller, "checkpoint")).toBe("passes");
  expect(await verdict(controller, "ports")).toBe("passes");
  expect(await verdict(controller, "*", "stop")).toBe("passes");
  for (const { publicKey } of [controller, gateway]) {
    expect(await verdict({ ...stranger, publicKey }, "ports")).toBe("Unauthorized");
  }
});

it("rejects gateways if no gateway key is configured", async () => {
  expect(await verdict(gateway, "ports", "ports", { publicKey: controller.publicKey })).toBe("Unauthorized");
});
