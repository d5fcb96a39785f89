/*
 * Where ROS 2 comes from Python wheels, rcl's libraries need the libraries of its Python bindings, which need Python's symbols
 * though nobody calls them. Functions are never looked for; these two objects are.
 */
__attribute__((visibility("default"))) void *PyExc_RuntimeError;
__attribute__((visibility("default"))) long _Py_TrueStruct[8];
