/**
 * The flags of every command. `--overlay2` adds where the writable layer is: in one hidden file, which a checkpoint holds
 * too. `--allow-suid` makes `sudo` work in agent images. The cell creates the control groups (src/cell/cgroup), in less than the
 * 60 ms that gVisor takes to move itself through every controller of cgroup v1.
 *
 * gVisor only logs differences between the spec of a checkpoint and that of its clone, which the controllers compare and name. It
 * compares annotations too, and would refuse to restore the memory of a sandbox that was started from the files of a checkpoint:
 * its spec has an annotation with the path of these files, which that of a clone does not have. The path cannot be the same in all
 * specs: containers are created before it is known what they start from, and checkpoints of earlier releases have another one or none.
 */
export const engineFlags = [
  "--ignore-cgroups",
  "--network=sandbox",
  "--host-settings=ignore",
  "--allow-suid",
  "--allow-rootfs-tar-annotation",
  "--restore-spec-validation=warning",
] as const;
