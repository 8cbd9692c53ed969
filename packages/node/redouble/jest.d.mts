export * from './jest.js';
