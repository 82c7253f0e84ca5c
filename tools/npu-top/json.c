// SPDX-License-Identifier: MIT
/* Samples as JSON: one object per line, null for unknown values. */
#include "npu-top.h"

#include "json_out.h"

static struct json_object *number(uint64_t v)
{
	return v == TOP_UNKNOWN ? NULL : json_out_u64(v);
}

static struct json_object *fraction(double v)
{
	return v < 0 ? NULL : json_out_double(v);
}

static struct json_object *text(const char *s)
{
	return json_out_string(s[0] ? s : NULL);
}

static struct json_object *device_json(const struct top_device *dev)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "device", json_out_string(dev->node));
	json_object_object_add(o, "driver", text(dev->driver));
	json_object_object_add(o, "name", text(dev->name));
	json_object_object_add(o, "gone", json_object_new_boolean(dev->gone));
	json_object_object_add(o, "busy", fraction(dev->busy));
	json_object_object_add(o, "memory_bytes", number(dev->memory_bytes));
	json_object_object_add(o, "from_clients", json_object_new_boolean(dev->from_clients));
	json_object_object_add(o, "clients", json_out_u64(dev->nr_clients));
	return o;
}

static struct json_object *client_json(const struct top_client *client)
{
	struct json_object *o = json_object_new_object(), *engines = json_object_new_object();

	json_object_object_add(o, "pid", json_object_new_int64(client->pid));
	json_object_object_add(o, "processes", json_out_u64(client->nr_processes));
	json_object_object_add(o, "user", text(client->user));
	json_object_object_add(o, "command", json_out_string(client->comm));
	json_object_object_add(o, "device", json_out_string(client->node));
	json_object_object_add(o, "driver", json_out_string(client->info.driver));
	json_object_object_add(o, "pdev", text(client->info.pdev));
	json_object_object_add(o, "client_id", json_out_u64(client->info.client_id));
	json_object_object_add(o, "busy", fraction(client->busy));
	for (unsigned int i = 0; i < client->info.nr_engines; i++) {
		const struct top_engine *e = &client->info.engines[i];
		struct json_object *engine = json_object_new_object();

		json_object_object_add(engine, "busy", fraction(e->busy));
		json_object_object_add(engine, "busy_ns", json_out_u64(e->busy_ns));
		json_object_object_add(engine, "capacity", json_out_u64(e->capacity));
		json_object_object_add(engines, e->name, engine);
	}
	json_object_object_add(o, "engines", engines);
	json_object_object_add(o, "total_bytes", number(client->info.total_bytes));
	json_object_object_add(o, "resident_bytes", number(client->info.resident_bytes));
	return o;
}

int top_print_json(FILE *out, const struct top *top)
{
	struct json_object *o = json_object_new_object(), *devices = json_object_new_array(),
			   *clients = json_object_new_array();
	int ret;

	for (size_t i = 0; i < top->nr_devices; i++)
		json_object_array_add(devices, device_json(&top->devices[i]));
	for (size_t i = 0; i < top->nr_clients; i++)
		json_object_array_add(clients, client_json(&top->clients[i]));
	json_object_object_add(o, "time_ns", json_out_u64(top->time_ns));
	json_object_object_add(o, "interval_ns", json_out_u64(top->interval_ns));
	json_object_object_add(o, "devices", devices);
	json_object_object_add(o, "clients", clients);
	json_object_object_add(o, "hidden_processes", json_out_u64(top->hidden));
	ret = json_out_line(out, o);
	json_object_put(o);
	fflush(out);
	return ret;
}
