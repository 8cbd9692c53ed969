export { RedisMemoryServer, type RedisMemoryServerOptsT, type StartupInstanceData } from './memory-server.js';
export { RedisMemoryServer as default } from './memory-server.js';
