import { expect, it } from "vitest";
import { annotations } from "../names/labels.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";
import { capturedImage, ImageConfig, type ResolvedImage } from "./resolved-image.ts";

const digest = (digit: string) => `sha256:${digit.repeat(64)}`;
const image = (name: string, { manifest = "a", config = "c" } = {}): ResolvedImage => ({
  name,
  reference: `${name.split("@")[0] ?? ""}@${digest(manifest)}`,
  config: ImageConfig.parse({ digest: digest(config) }),
});
const recorded = (resolved: ResolvedImage) => ({ annotations: { [annotations.image]: JSON.stringify(resolved) } });
const template = (name: string, resolved?: ResolvedImage) =>
  parsePodTemplate({
    metadata: resolved && recorded(resolved),
    spec: { containers: [{ name: "main", image: name }] },
  });
const checkpoint = recorded(image("python"));

it("finds the captured image under its name, and under another one by its digest", () => {
  expect(capturedImage(checkpoint, template("python"))).toEqual(image("python"));
  const pinned = `mirror/python@${digest("a")}`;
  expect(capturedImage(checkpoint, template(pinned))).toEqual({ ...image(pinned), reference: pinned });
  const own = image("mirror/python", { manifest: "b" });
  expect(capturedImage(checkpoint, template("mirror/python", own))).toEqual(own);
});

it("finds no image under another name without that digest", () => {
  expect(capturedImage(checkpoint, template("mirror/python"))).toBeUndefined();
  expect(capturedImage(checkpoint, template(`python@${digest("b")}`))).toBeUndefined();
  const own = image("mirror/python", { config: "d" });
  expect(capturedImage(checkpoint, template("mirror/python", own))).toBeUndefined();
  expect(capturedImage(undefined, template("python"))).toBeUndefined();
});

it("takes no two images for the same because neither has a digest", () => {
  const unknown = (name: string) => ({ ...image(name), config: ImageConfig.parse({}) });
  expect(capturedImage(recorded(unknown("python")), template("node", unknown("node")))).toBeUndefined();
});
