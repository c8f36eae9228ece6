import { describe, expect, it } from "vitest";
import { cgroupLayout } from "./layout.ts";

/** From a Docker host with version 1 and a unified hierarchy without controllers. */
const hybridSelf = `9:name=systemd:/
8:pids:/
4:memory:/docker/0a1b
2:cpu,cpuacct:/docker/0a1b
0::/
`;
const hybridMounts = `25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw
31 25 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
34 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
36 31 0:32 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
37 31 0:33 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`;

describe("cgroupLayout", () => {
  it("finds a directory for each controller of version 1, also if two share a hierarchy", () => {
    expect(cgroupLayout(hybridSelf, hybridMounts)).toEqual({
      version: 1,
      own: {
        memory: "/sys/fs/cgroup/memory/docker/0a1b",
        cpu: "/sys/fs/cgroup/cpu,cpuacct/docker/0a1b",
        pids: "/sys/fs/cgroup/pids",
      },
      contained: [],
    });
  });

  it("finds the directory in a container of version 1, which sees only its part of each hierarchy", () => {
    const mounts =
      "700 690 0:30 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro,nosuid master:15 - cgroup cgroup rw,memory\n";
    expect(cgroupLayout("4:memory:/kubepods/pod1/c1\n", mounts)).toEqual({
      version: 1,
      own: { memory: "/sys/fs/cgroup/memory" },
      contained: ["memory"],
    });
  });

  it("finds the root of a Pod's private namespace of version 2", () => {
    const mounts = "1200 1100 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n";
    expect(cgroupLayout("0::/\n", mounts)).toEqual({ version: 2, mount: "/sys/fs/cgroup", own: "/sys/fs/cgroup" });
  });

  it("finds a session's scope of version 2", () => {
    const mounts = "30 24 0:26 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,memory_recursiveprot\n";
    expect(cgroupLayout("0::/user.slice/user-0.slice/session-3.scope\n", mounts)).toEqual({
      version: 2,
      mount: "/sys/fs/cgroup",
      own: "/sys/fs/cgroup/user.slice/user-0.slice/session-3.scope",
    });
  });

  it("reads a directory name with a space", () => {
    const mounts = "30 24 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n";
    expect(cgroupLayout("0::/a\n", mounts)).toMatchObject({ own: "/my groups/a" });
  });

  it.each([
    ["nothing is mounted", "0::/\n", "25 30 0:23 / /sys rw - sysfs sysfs rw\n"],
    ["the cell's group is outside the mount", "0::/../x\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n"],
    ["another part is mounted", "0::/b\n", "30 24 0:26 /a /sys/fs/cgroup rw - cgroup2 c rw\n"],
  ])("returns undefined if %s", (_, self, mounts) => {
    expect(cgroupLayout(self, mounts)).toBeUndefined();
  });
});
