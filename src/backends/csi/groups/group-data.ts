import type { KubeClient } from "../../../kube/kube-client.ts";
import type { GroupSnapshotContent } from "../../../kube/volumes/group-snapshots.ts";
import { type SnapshotContent, snapshotContentsIn } from "../../../kube/volumes/snapshots.ts";
import { handleOf, isReleased, markReleased } from "../release-data.ts";

/**
 * Decides what becomes of the data of a group that is removed. A driver deletes that of all members together, so it stays if another
 * content has the data of any of them, and nobody deletes it then: most drivers refuse to delete a single member.
 * @param members the contents of its members, which no longer keep the data
 */
export async function releaseGroupData(
  client: KubeClient,
  group: GroupSnapshotContent | undefined,
  members: readonly SnapshotContent[],
): Promise<"Delete" | "Retain"> {
  for (const member of members) await markReleased(client, member);
  const own = new Set(members.map(({ metadata }) => metadata.uid));
  const known = [
    ...members.map((one) => dataOf(one.spec.driver, handleOf(one))),
    ...(group?.status?.volumeSnapshotInfoList ?? []).map((one) => dataOf(group?.spec.driver, one.snapshotHandle)),
  ];
  const data = new Set(known.filter((one) => one !== undefined));
  const { items } = await snapshotContentsIn(client).list();
  const others = items.filter((one) => !own.has(one.metadata.uid) && !isReleased(one));
  const isShared = others.some((one) => data.has(dataOf(one.spec.driver, handleOf(one)) ?? ""));
  return isShared ? "Retain" : "Delete";
}

function dataOf(driver = "", handle: string | undefined): string | undefined {
  return handle === undefined ? undefined : `${driver}\n${handle}`;
}
