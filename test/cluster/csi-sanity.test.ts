import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { runProgram } from "../../src/base/run-program.ts";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import { type CsiDriver, startCsiDriver } from "../setup/csi-driver.ts";
import { pinnedTestTool } from "../setup/pinned-tools.ts";

const Report = z.array(
  z.looseObject({
    SpecReports: z.array(
      z.looseObject({
        ContainerHierarchyTexts: z.array(z.string()).nullable(),
        LeafNodeType: z.string(),
        LeafNodeText: z.string(),
        State: z.string(),
        Failure: z.looseObject({ Message: z.string() }).optional(),
      }),
    ),
  }),
);

let dir: string;
let driver: CsiDriver;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-csi-"));
  driver = await startCsiDriver(dir);
});
afterAll(async () => {
  await driver.process.stop();
  await rm(dir, { recursive: true, force: true });
});

/** The features that the driver does not claim: volumes need no attachment and no staging, and have neither attributes nor health to report. */
const notClaimed = [
  "Controller Publish, UnpublishVolume not supported",
  "ControllerGetVolumeHealth not supported",
  "ControllerListVolumeHealth not supported",
  "ControllerModifyVolume not supported",
  "ControllerPublishVolume not supported",
  "ControllerUnpublishVolume not supported",
  "Modify Volume not supported",
  "Modify volume not supported",
  "NodeGetStorageHealth not supported",
  "NodeGetVolumeHealth not supported",
  "NodeStageVolume not supported",
  "NodeUnstageVolume not supported",
  "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
];

it.skipIf(process.getuid?.() !== 0)(
  "passes csi-sanity, which skips only what the driver does not claim to do",
  async () => {
    const { "csi-sanity": program } = await acquirePinned(pinnedTestTool, { names: ["csi-sanity"] });
    const report = join(dir, "report.json");
    const { code, stdout } = await runProgram({
      program,
      args: [
        `--csi.endpoint=${driver.endpoint}`,
        `--csi.mountdir=${join(dir, "mount")}`,
        `--csi.stagingdir=${join(dir, "staging")}`,
        `--ginkgo.json-report=${report}`,
        "--ginkgo.no-color",
      ],
      timeoutMilliseconds: 200_000,
    });
    const [{ SpecReports: specs } = { SpecReports: [] }] = Report.parse(JSON.parse(await readFile(report, "utf8")));
    const tests = specs.filter(({ LeafNodeType }) => LeafNodeType === "It");
    const failed = tests.filter(({ State }) => !["passed", "skipped", "pending"].includes(State));
    expect(failed.map(({ LeafNodeText, Failure }) => `${LeafNodeText}: ${Failure?.Message ?? ""}`)).toEqual([]);
    expect(code, stdout).toBe(0);
    const reasons = new Set(
      tests.filter(({ State }) => State === "skipped").map(({ Failure }) => Failure?.Message ?? ""),
    );
    expect([...reasons].sort()).toEqual(notClaimed);
    expect(tests.filter(({ State }) => State === "passed").length).toBeGreaterThan(60);
  },
);
