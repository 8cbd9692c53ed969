export { redouble, withSpace } from './jest.js';
