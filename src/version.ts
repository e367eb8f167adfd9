// The version of this package, kept equal to package.json by a test. A constant, so that it is
// right however the package is bundled or installed.
export const version = '0.1.0';
