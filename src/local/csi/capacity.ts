import { RametError } from "../../base/errors.ts";
import type { CapacityRange } from "./requests.ts";

/** The size of a volume whose size nobody requests. */
const defaultBytes = 1024 ** 3;

/**
 * The capacity of a new volume: what is required, and at least that of its source.
 * @throws RametError `OutOfRange` if the source needs more than is requested
 */
export function newCapacity(range: CapacityRange = unlimited, sourceBytes = 0): number {
  checkRange(range);
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes > 0 && requiredBytes < sourceBytes) throw tooSmall(requiredBytes, sourceBytes);
  if (requiredBytes > 0) return requiredBytes;
  const bytes = sourceBytes > 0 ? sourceBytes : Math.min(defaultBytes, most(range));
  if (bytes > most(range)) throw tooSmall(limitBytes, bytes);
  return bytes;
}

/** The capacity of a volume after it was expanded. A volume never becomes smaller. @throws RametError `OutOfRange` */
export function expandedCapacity(range: CapacityRange, currentBytes: number): number {
  checkRange(range);
  const bytes = Math.max(range.requiredBytes, currentBytes);
  if (bytes > most(range)) throw tooSmall(range.limitBytes, bytes);
  return bytes;
}

/** Whether an existing volume is as large as is requested. */
export function isInRange(bytes: number, range: CapacityRange = unlimited): boolean {
  return bytes >= range.requiredBytes && bytes <= most(range);
}

const unlimited: CapacityRange = { requiredBytes: 0, limitBytes: 0 };

function most({ limitBytes }: CapacityRange): number {
  return limitBytes === 0 ? Infinity : limitBytes;
}

function checkRange(range: CapacityRange): void {
  const { requiredBytes, limitBytes } = range;
  if (requiredBytes <= most(range)) return;
  throw new RametError(
    "InvalidArgument",
    `The limit of ${limitBytes} bytes is below the required ${requiredBytes} bytes`,
  );
}

function tooSmall(requested: number, least: number): RametError {
  return new RametError("OutOfRange", `${requested} bytes are too few: the content needs a volume of ${least} bytes`, {
    hint: `Request ${least} bytes or more`,
  });
}
