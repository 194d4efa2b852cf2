//! Changes of running pods, for plugins that count them.

/// [`take`](crate::framework::Filter::take) and [`undo`](crate::framework::Filter::undo) of a filter
/// or score, both by one function: it is given the plugin, what was prepared, the context, the shape
/// and the node of the pod, and 1 for a pod more or -1 for a pod less.
macro_rules! take_and_undo {
    ($change:path) => {
        fn take(
            &self,
            prepared: &mut Prepared,
            cx: &Context<'_>,
            placed: &PodShape,
            node: NodeView<'_>,
        ) {
            $change(self, prepared, cx, placed, node, 1);
        }

        fn undo(
            &self,
            prepared: &mut Prepared,
            cx: &Context<'_>,
            placed: &PodShape,
            node: NodeView<'_>,
        ) {
            $change(self, prepared, cx, placed, node, -1);
        }
    };
}

pub(super) use take_and_undo;
