import { RedisMemoryServer } from './memory-server.js';

export { RedisMemoryServer };
export default RedisMemoryServer;
