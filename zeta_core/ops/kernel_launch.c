/* Launches a row of compiled kernels in one call from Python: on short sequences the host is what takes time.

   A program is 64-bit words: for each kernel its function, grid, threads, shared memory and number of parameters,
   then two words a parameter: the tensor that it points into (or -1) and the offset in bytes (or the number). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { MOST_TENSORS = 32, MOST_PARAMETERS = 128, ALIGNED = 16, NO_CONTEXT = 201 };

typedef int (*Launcher)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                        void *stream, void **parameters, void **extra);

/* run(launcher, program, stream, *tensors): False, and nothing done, if a tensor is not aligned, or if this thread has
   used no GPU before (Triton's own launch then gives it a context). */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  uint64_t tensors[MOST_TENSORS], all = 0;
  if (count < 3 || count > 3 + MOST_TENSORS || !PyBytes_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "run takes a launcher, a program in bytes, a stream and at most 32 tensors");
    return NULL;
  }
  Launcher launch = (Launcher)(uintptr_t)PyLong_AsUnsignedLongLong(args[0]);
  void *stream = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(args[2]);
  for (Py_ssize_t i = 3; i < count; i++) {
    tensors[i - 3] = PyLong_AsUnsignedLongLong(args[i]);
    all |= tensors[i - 3];
  }
  if (PyErr_Occurred()) return NULL;
  if (all % ALIGNED) Py_RETURN_FALSE;
  const int64_t *at = (const int64_t *)PyBytes_AS_STRING(args[1]);
  const int64_t *end = at + PyBytes_GET_SIZE(args[1]) / 8;
  int status = 0, launched = 0;
  Py_BEGIN_ALLOW_THREADS
  while (at < end && status == 0) {
    uint64_t values[MOST_PARAMETERS];
    void *parameters[MOST_PARAMETERS];
    const int64_t *head = at;
    at += 5;
    for (int64_t i = 0; i < head[4]; i++, at += 2) {
      values[i] = (uint64_t)at[1] + (at[0] < 0 ? 0 : tensors[at[0]]);
      parameters[i] = &values[i];
    }
    status = launch((void *)head[0], (unsigned)head[1], 1, 1, (unsigned)head[2], 1, 1, (unsigned)head[3], stream,
                    parameters, NULL);
    launched += status == 0;
  }
  Py_END_ALLOW_THREADS
  if (status == NO_CONTEXT && !launched) Py_RETURN_FALSE;
  if (status) return PyErr_Format(PyExc_RuntimeError, "CUDA error %d where a kernel was launched", status);
  Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {{"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Launch a program."}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "zeta_launch", NULL, -1, methods};
PyMODINIT_FUNC PyInit_zeta_launch(void) { return PyModule_Create(&module); }
