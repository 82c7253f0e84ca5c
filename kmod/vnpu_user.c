// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits per user, so that one who opens many files cannot take a whole device from the others.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "vnpu_drv.h"
#include "vnpu_user.h"

/* The caller's entry, with a reference; a new one if need be. NULL: no memory. */
struct vnpu_user *vnpu_user_get(struct vnpu_device *vdev)
{
	struct vnpu_user *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *user;

	if (!new)
		return NULL;
	kref_init(&new->ref);
	new->vdev = vdev;
	new->uid = current_uid();
	spin_lock(&vdev->users_lock);
	list_for_each_entry (user, &vdev->users, node) {
		if (!uid_eq(user->uid, new->uid))
			continue;
		kref_get(&user->ref);
		spin_unlock(&vdev->users_lock);
		kfree(new);
		return user;
	}
	list_add(&new->node, &vdev->users);
	spin_unlock(&vdev->users_lock);
	return new;
}

/* Under users_lock, so that nobody finds the entry any more. */
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

/* 0, with a reference to the user, or -EDQUOT. The caller's privilege counts, as with resource limits. */
int vnpu_user_charge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount)
{
	u64 limit = user->vdev->user_limits[kind];
	s64 old = atomic64_read(&user->used[kind]);

	do {
		if (limit && (old > limit || amount > limit - old) &&
		    !ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE))
			return -EDQUOT;
	} while (!atomic64_try_cmpxchg(&user->used[kind], &old, old + amount));
	kref_get(&user->ref);
	return 0;
}

void vnpu_user_uncharge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount)
{
	atomic64_sub(amount, &user->used[kind]);
	vnpu_user_put(user);
}
