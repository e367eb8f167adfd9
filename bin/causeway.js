#!/usr/bin/env node
// The `causeway` command. Sources are TypeScript: `npm run build` compiles them to dist/.
import { run } from '../dist/src/cli/main.js';

process.exitCode = await run(process.argv.slice(2));
