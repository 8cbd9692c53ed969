export { startRedouble, connectRedouble, findBinary, RedoubleError, UnusedError } from './index.js';
