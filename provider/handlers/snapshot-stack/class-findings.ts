import type { Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import { managedDriver } from "./managed-drivers.ts";
import type { ClassSeen, StackSeen } from "./stack-seen.ts";
import type { ClassWish, StackWish } from "./stack-request.ts";

type Wish = Pick<StackWish, "cloud" | "owners" | "classes" | "addons" | "driversMayCome">;

/** What is in the way of the classes that are wished, and of those that are there. */
export function classFindings({ cloud, classes, owners, addons, driversMayCome }: Wish, seen: StackSeen): Finding[] {
  const brought = addons.flatMap(({ driver }) => driver ?? []);
  const absent = [...new Set(classes.map(({ driver }) => driver))]
    .filter((driver) => ![...seen.drivers, ...brought].includes(driver))
    .filter(() => !seen.unread.includes("csidrivers"));
  const others = seen.classes.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  return [
    ...absent.map((driver) => ({
      ...absentDriver(driver, cloud, seen.drivers),
      weight: driversMayCome ? ("tell" as const) : ("refuse" as const),
    })),
    ...classes.flatMap(({ name }) => others.filter((other) => other.name === name).map(takenName)),
    ...defaultFindings(classes, others),
  ];
}

function absentDriver(driver: string, cloud: Cloud, drivers: readonly string[]): Omit<Finding, "weight"> {
  const known = drivers.length === 0 ? "no CSI driver at all" : drivers.join(", ");
  const what = `a class is for the driver ${driver}, which is not there; there is ${known}`;
  const managed = managedDriver(cloud);
  const how = managed?.name === driver ? managed.how : "Install the driver first, or leave the class out";
  return { code: "NotFound", what, how };
}

function takenName({ name, manager }: ClassSeen): Finding {
  const what = `the VolumeSnapshotClass ${name} is there and belongs to ${manager}`;
  return { code: "AlreadyExists", what, how: "Give the class another name", weight: "refuse" };
}

/** With two defaults for one driver, the controller refuses every snapshot that names no class. */
function defaultFindings(wished: readonly ClassWish[], others: readonly ClassSeen[]): Finding[] {
  const drivers = new Set([...wished, ...others].map(({ driver }) => driver));
  return [...drivers].flatMap((driver): Finding[] => {
    const own = wished.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const there = others.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const names = [...there, ...own];
    if (names.length < 2) return [];
    const what = `${driver} would have ${names.length} default classes (${names.join(", ")}), and then no snapshot without a class can be taken`;
    const how =
      own.length > 0
        ? "Let one class alone be the default of a driver"
        : `Take the annotation snapshot.storage.kubernetes.io/is-default-class from all but one`;
    return [{ code: "Conflict", what, how, weight: own.length > 0 ? "refuse" : "tell" }];
  });
}
