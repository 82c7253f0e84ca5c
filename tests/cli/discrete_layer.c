// SPDX-License-Identifier: MIT
/*
 * A layer of the OpenCL loader (OPENCL_LAYERS) that makes devices behave as a discrete GPU, with
 * memory of its own: a device is said not to have the host's memory, and of transfers that need not
 * have ended when the call returns, those to the device take the host's bytes at once, and those to
 * the host come late.
 *
 * Drivers of GPUs take small transfers' bytes when these are enqueued, as the standard lets them:
 * nobody may write the bytes until the transfer's end. PoCL takes them when the transfer's turn
 * has come, which hides callers that write in the meantime.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const struct _cl_icd_dispatch *below;
static struct _cl_icd_dispatch layer;

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t bytes,
					  void *value, size_t *bytes_ret)
{
	cl_int err = below->clGetDeviceInfo(device, what, bytes, value, bytes_ret);

	if (!err && what == CL_DEVICE_HOST_UNIFIED_MEMORY && value)
		*(cl_bool *)value = CL_FALSE;
	return err;
}

static void CL_CALLBACK staged_end(cl_event event, cl_int status, void *ud)
{
	free(ud);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
				       size_t off, size_t bytes, const void *host, cl_uint nr,
				       const cl_event *after, cl_event *event)
{
	void *staged = blocking ? NULL : malloc(bytes);
	cl_event end;
	cl_int err;

	if (!staged)
		return below->clEnqueueWriteBuffer(queue, mem, blocking, off, bytes, host, nr,
						   after, event);
	memcpy(staged, host, bytes);
	err = below->clEnqueueWriteBuffer(queue, mem, CL_FALSE, off, bytes, staged, nr, after,
					  &end);
	if (err) {
		free(staged);
		return err;
	}
	err = below->clSetEventCallback(end, CL_COMPLETE, staged_end, staged);
	if (event)
		*event = end;
	else
		below->clReleaseEvent(end);
	return err;
}

static void CL_CALLBACK late(void *arg)
{
	usleep(300);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
				      size_t off, size_t bytes, void *host, cl_uint nr,
				      const cl_event *after, cl_event *event)
{
	cl_event slept;
	cl_int err;

	if (blocking)
		return below->clEnqueueReadBuffer(queue, mem, blocking, off, bytes, host, nr, after,
						  event);
	err = below->clEnqueueNativeKernel(queue, late, NULL, 0, 0, NULL, NULL, nr, after, &slept);
	if (err)
		return err;
	err = below->clEnqueueReadBuffer(queue, mem, CL_FALSE, off, bytes, host, 1, &slept, event);
	below->clReleaseEvent(slept);
	return err;
}

EXPORTED cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *value,
					   size_t *bytes_ret)
{
	const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

	if (what != CL_LAYER_API_VERSION || (value && bytes < sizeof(version)))
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, &version, sizeof(version));
	if (bytes_ret)
		*bytes_ret = sizeof(version);
	return CL_SUCCESS;
}

EXPORTED cl_int CL_API_CALL clInitLayer(cl_uint nr, const struct _cl_icd_dispatch *target,
					cl_uint *nr_ret, const struct _cl_icd_dispatch **ret)
{
	if (nr < sizeof(layer) / sizeof(layer.clGetPlatformIDs))
		return CL_INVALID_VALUE;
	below = target;
	layer.clGetDeviceInfo = get_device_info;
	layer.clEnqueueWriteBuffer = write_buffer;
	layer.clEnqueueReadBuffer = read_buffer;
	*nr_ret = sizeof(layer) / sizeof(layer.clGetPlatformIDs);
	*ret = &layer;
	return CL_SUCCESS;
}
