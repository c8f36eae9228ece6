import { RametError } from "./errors.ts";

/** The powers of ten and two of a Kubernetes quantity's suffixes (k8s.io/apimachinery/pkg/api/resource). */
const decimalExponents: Record<string, number> = { n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const binaryExponents: Record<string, number> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
/** At most 128 characters, far more than a quantity needs: the time to compute one grows with the square of its length. */
const shape = /^(?=.{1,128}$)([+-]?)(\d+)?(?:\.(\d*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?\d{1,3}))$/;

/**
 * Converts a quantity such as `512Mi`, `1G`, `1e9` or `1000` to bytes. Rounds up to whole bytes, as Kubernetes does.
 * @throws RametError `InvalidArgument`
 */
export function quantityToBytes(quantity: string | number, field = "quantity"): number {
  return scaled(quantity, 0, field);
}

/**
 * Converts a CPU quantity such as `1`, `0.5` or `250m` to millicores, rounded up.
 * @throws RametError `InvalidArgument`
 */
export function quantityToMillicores(quantity: string | number, field = "quantity"): number {
  return scaled(quantity, 3, field);
}

/** Parses the size of a writable layer. @throws RametError `InvalidArgument` */
export function parseLayerSize(quantity: string, field: string): number {
  const bytes = quantityToBytes(quantity, field);
  if (bytes <= 0) throw invalid(quantity, field, "is not positive");
  if (!Number.isSafeInteger(bytes)) throw invalid(quantity, field, "is too large");
  return bytes;
}

/** quantity × 10^tens, computed with integers because 0.1 has no exact floating-point representation. */
function scaled(quantity: string | number, tens: number, field: string): number {
  const { mantissa, power, shift } = parse(quantity, field);
  if (power > maxPower) throw invalid(quantity, field, "is too large");
  const numerator = mantissa * 2n ** BigInt(shift) * 10n ** BigInt(Math.max(power + tens, 0));
  const denominator = 10n ** BigInt(Math.max(-power - tens, 0));
  const remainder = numerator % denominator;
  return Number(numerator / denominator + (remainder > 0n ? 1n : 0n));
}

/** quantity = mantissa × 10^power × 2^shift. */
function parse(quantity: string | number, field: string): { mantissa: bigint; power: number; shift: number } {
  const match = shape.exec(String(quantity));
  const [, sign = "", whole = "", fraction = "", binary = "", suffix = "", exponent] = match ?? [];
  if (whole + fraction === "") {
    throw invalid(quantity, field, "is not a Kubernetes quantity");
  }
  const power = exponent === undefined ? (decimalExponents[suffix] ?? 0) : Number(exponent);
  const mantissa = BigInt(whole + fraction);
  return {
    mantissa: sign === "-" ? -mantissa : mantissa,
    power: power - fraction.length,
    shift: binaryExponents[binary] ?? 0,
  };
}

/** A larger power of ten could exceed the numbers of JavaScript, of which the largest is near 10^308. */
const maxPower = 150;

function invalid(quantity: string | number, field: string, why: string): RametError {
  const text = JSON.stringify(String(quantity).slice(0, 128));
  return new RametError("InvalidArgument", `${field} ${why}: ${text}`, {
    hint: "Write a number with an optional suffix, like 512Mi, 1Gi, 500m or 2",
  });
}

/** Writes bytes as a quantity with the largest binary suffix that is exact. */
export function bytesToQuantity(bytes: number): string {
  const suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let [value, index] = [bytes, 0];
  while (value > 0 && value % 1024 === 0 && index < suffixes.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${value}${suffixes[index] ?? ""}`;
}

/** A size for people: `1.5GiB`. */
export function readableBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))}${units[unit] ?? ""}`;
}
