import { link, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Puts gVisor's `gvisor-bin/gvisor-sentry-prewarmer` beside a `runsc` that Go built: the Go module has it in C only, and no
 * C compiler is to be needed here. `runsc` starts it as `prewarmer PROGRAM ARGV0 ARGS…` (runsc/sandbox/sandbox.go); it
 * makes its table of file descriptors longer than 256, which exec keeps, and becomes the program. The sentry has many
 * threads when it would first need that, and Linux then waits for all CPUs (`expand_fdtable` in fs/file.c): `runsc create`
 * took 97 instead of 147 ms (p50 of 25, in turns, two busy cores). For amd64; elsewhere `runsc` does without.
 *
 * `gvisor_sentry` must then be there too: without it PROGRAM is `/proc/self/exe`, which is the prewarmer itself.
 */
export async function addPrewarmer(directory: string): Promise<void> {
  if (process.arch !== "x64") return;
  const sidecars = join(directory, "gvisor-bin");
  await mkdir(sidecars, { mode: 0o755 });
  await link(join(directory, "runsc"), join(sidecars, "gvisor_sentry"));
  await writeFile(join(sidecars, "gvisor-sentry-prewarmer"), elf(amd64), { mode: 0o755 });
}

/** What stands at the right is the instruction (System V ABI: argc is at rsp, argv from rsp + 8, then the environment). */
const amd64 = Buffer.from(
  [
    "4889e3", // mov rbx, rsp
    "b848000000", // mov eax, 72         fcntl
    "31ff", // xor edi, edi            (0,
    "31f6", // xor esi, esi             F_DUPFD,
    "ba00010000", // mov edx, 256        256)
    "0f05", // syscall
    "85c0", // test eax, eax
    "7809", // js over the next three
    "89c7", // mov edi, eax
    "b803000000", // mov eax, 3          close
    "0f05", // syscall
    "488b03", // mov rax, [rbx]
    "488d54c310", // lea rdx, [rbx+rax*8+16]   the environment
    "488d7318", // lea rsi, [rbx+24]     &argv[2]
    "488b7b10", // mov rdi, [rbx+16]     argv[1]
    "b83b000000", // mov eax, 59         execve
    "0f05", // syscall
    "bf7f000000", // mov edi, 127
    "b83c000000", // mov eax, 60         exit
    "0f05", // syscall
  ].join(""),
  "hex",
);

/** A static ELF program (elf(5)): one header, one segment that is loaded whole, and the code after them. */
function elf(code: Buffer): Buffer {
  const address = 0x400000n;
  const headersBytes = 64 + 56;
  const header = Buffer.alloc(64);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  header.writeUInt16LE(2, 16); // ET_EXEC
  header.writeUInt16LE(62, 18); // EM_X86_64
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(address + BigInt(headersBytes), 24);
  header.writeBigUInt64LE(64n, 32);
  header.writeUInt16LE(64, 52);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(1, 56);
  const segment = Buffer.alloc(56);
  const bytes = BigInt(headersBytes + code.length);
  segment.writeUInt32LE(1, 0); // PT_LOAD
  segment.writeUInt32LE(5, 4); // readable, executable
  segment.writeBigUInt64LE(address, 16);
  segment.writeBigUInt64LE(address, 24);
  segment.writeBigUInt64LE(bytes, 32);
  segment.writeBigUInt64LE(bytes, 40);
  segment.writeBigUInt64LE(4096n, 48);
  return Buffer.concat([header, segment, code]);
}
