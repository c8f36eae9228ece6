import { expect, it } from "vitest";
import { clusterDirectory } from "../cluster-directory.ts";
import { ClusterSetting } from "../cluster-setting.ts";
import { controllerArguments } from "./parts.ts";

const tools = { etcd: "", "kube-apiserver": "", runsc: "", "ramet-guest": "", "ramet-link": "" };
const setting = {
  v: 1,
  name: "test",
  program: ["node"],
  cell: ["node"],
  tools,
  cellImage: "ramet-cell:local",
} as const;

function deniedRanges(more: Partial<ClusterSetting>): string[] {
  const directory = clusterDirectory("test", { XDG_DATA_HOME: "/nowhere" });
  const args = controllerArguments({ directory, setting: ClusterSetting.parse({ ...setting, ...more }) });
  return args.filter((_, at) => args[at - 1] === "--cluster-range");
}

it("denies sandboxes the private ranges unless they are allowed", () => {
  expect(deniedRanges({})).toEqual(["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"]);
  expect(deniedRanges({ allowPrivateNetworks: true })).toEqual([]);
});
