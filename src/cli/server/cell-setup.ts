import { placeCellPrograms } from "../../local/cell-programs.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";

/** `ramet cell setup`: what the image of the cell has beside the package. Prints the path of each program. */
export async function setUpCell({ clock, signal, stdout, stderr }: Io, folder: string): Promise<number> {
  const progress = (line: string): void => {
    printLine(stderr, line);
  };
  for (const path of await placeCellPrograms(folder, { clock, signal, progress })) printLine(stdout, path);
  return exitCodes.ok;
}
