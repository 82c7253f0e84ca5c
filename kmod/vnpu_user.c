// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits of a device and of each of its users, so that a user who opens many files cannot take
 * everything from the others.
 */

#include "vnpu_drv.h"

/* The caller's entry with a reference; created if there is none. NULL: out of memory. */
struct vnpu_user *vnpu_user_get(struct vnpu_device *vdev)
{
	struct vnpu_user *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *user;

	if (!new)
		return NULL;
	kref_init(&new->ref);
	new->vdev = vdev;
	new->uid = current_uid();
	guard(spinlock)(&vdev->users_lock);
	list_for_each_entry(user, &vdev->users, node) {
		if (!uid_eq(user->uid, new->uid))
			continue;
		kref_get(&user->ref);
		kfree(new);
		return user;
	}
	list_add(&new->node, &vdev->users);
	return new;
}

/* Called under users_lock, so that nobody finds the entry any more. */
static void vnpu_user_release(struct kref *ref)
{
	struct vnpu_user *user = container_of(ref, struct vnpu_user, ref);

	list_del(&user->node);
	spin_unlock(&user->vdev->users_lock);
	kfree(user);
}

void vnpu_user_put(struct vnpu_user *user)
{
	kref_put_lock(&user->ref, vnpu_user_release, &user->vdev->users_lock);
}

/*
 * Returns 0 and takes a reference to the user; -EDQUOT; or -ENOSPC if memory exceeds the device's
 * limit. Checks the capability of the caller, as resource limits do.
 */
int vnpu_user_charge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount)
{
	bool exempt = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	struct vnpu_device *vdev = user->vdev;

	guard(spinlock)(&vdev->users_lock);
	if (!exempt && user->used[kind] + amount > vdev->user_limits[kind])
		return -EDQUOT;
	if (kind == VNPU_USER_MEM && vdev->mem_bytes + amount > vdev->mem_limit)
		return -ENOSPC;
	if (kind == VNPU_USER_MEM)
		WRITE_ONCE(vdev->mem_bytes, vdev->mem_bytes + amount);
	user->used[kind] += amount;
	kref_get(&user->ref);
	return 0;
}

void vnpu_user_uncharge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount)
{
	struct vnpu_device *vdev = user->vdev;

	scoped_guard(spinlock, &vdev->users_lock) {
		user->used[kind] -= amount;
		if (kind == VNPU_USER_MEM)
			WRITE_ONCE(vdev->mem_bytes, vdev->mem_bytes - amount);
	}
	vnpu_user_put(user);
}
