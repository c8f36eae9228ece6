interface Choice {
  image?: string;
  /** @default the cluster's default class */
  storageClass?: string | undefined;
  /** @default one, `data` */
  volumes?: readonly string[];
}

/** A sandbox which runs a Python program, with a claim of its own for each volume, which is mounted at /<name>. */
export function sandboxWithVolume(code: string, { image = "python", storageClass, volumes = ["data"] }: Choice = {}) {
  const volumeMounts = volumes.map((name) => ({ name, mountPath: `/${name}` }));
  return {
    template: { spec: { containers: [{ name: "main", image, command: ["python3", "-c", code], volumeMounts }] } },
    volumeClaimTemplates: volumes.map((name) => ({
      metadata: { name },
      spec: {
        accessModes: ["ReadWriteOnce"],
        resources: { requests: { storage: "1Gi" } },
        ...(storageClass !== undefined && { storageClassName: storageClass }),
      },
    })),
  };
}

/** A program that only runs. */
export const sleeping = "import time\nwhile True: time.sleep(1000)";

/**
 * Writes numbers into the volume as fast as it can, and before each one compares the volume with its memory. They differ only if the
 * program was restored with a volume of another moment.
 */
export const comparing = `
import os
open('/tmp/pid', 'w').write(str(os.getpid()))
n = 0
fd = os.open('/data/count', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'%020d' % n, 0)
while True:
    found = int(os.pread(fd, 20, 0))
    if found != n:
        open('/tmp/violation', 'a').write(f'memory {n}, volume {found}\\n')
        n = found
    n += 1
    os.pwrite(fd, b'%020d' % n, 0)
`;

/** Prints what the program has found, after it has had time to compare. */
export const violations = "sleep 0.2; cat /tmp/violation 2> /dev/null || true";

/**
 * Gives the volume the number 1 while the program is stopped, which it must notice. Several times, because the program does not notice it
 * between its comparison and its write; and without a truncation, because it can run until it is stopped, and ends if it reads nothing.
 */
export const violate =
  "pid=$(cat /tmp/pid); for i in 1 2 3 4 5; do kill -STOP $pid; printf %020d 1 1<> /data/count; kill -CONT $pid; sleep 0.1; done";
