/*
 * If ROS 2 comes from Python wheels, rcl's libraries depend on those of its Python bindings, which need Python's
 * symbols. Functions are bound only when called, which never happens; these two objects are needed at loading.
 */
__attribute__((visibility("default"))) void *PyExc_RuntimeError;
__attribute__((visibility("default"))) long _Py_TrueStruct[8];
