import * as z from "zod";

// The first import of the cell's program: schemas ask for it when they are made. A cell parses each thing once or twice,
// and to compile a parser takes longer than to do without.
z.config({ jitless: true });
