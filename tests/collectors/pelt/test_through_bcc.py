"""The text that bcc compiles has one program for each probe that this kernel may take."""

from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.pelt.programs import CONTEXTS
from schedperf_collectors.pelt.through_bcc import program_text


def kernel_with(*names: str) -> KernelFunctions:
    return KernelFunctions(addresses=dict.fromkeys(names, (1,)), copies={})


def test_the_text_has_programs_for_what_is_there_only() -> None:
    text = program_text(kernel_with("update_cfs_group", "enqueue_task_fair", "wake_up_new_task",
                                    "newidle_balance",
                                    "__do_sys_getuid", "__do_sys_geteuid"))  # fmt: skip
    assert "int kfunc__update_cfs_group(void *ctx)\n{\n\treturn enter(0, OPEN_RUN);\n}" in text
    assert "int kretfunc__update_cfs_group(void *ctx)\n{\n\treturn leave(0, OPEN_RUN);\n}" in text
    enqueue, newidle = CONTEXTS.index("enqueue"), CONTEXTS.index("newidle")
    assert f"int kretfunc__enqueue_task_fair(void *ctx)\n{{\n\treturn unmark({enqueue});" in text
    # Under the name that this kernel has.
    assert f"int kfunc__newidle_balance(void *ctx)\n{{\n\treturn mark({newidle});" in text
    assert "int kfunc__sched_balance_newidle" not in text
    assert "int kfunc__wake_up_new_task(void *ctx)\n{\n\treturn begin_fork();" in text
    assert "int kfunc__dequeue_task_fair" not in text
    assert "return enter(6, OPEN_TRIAL);" in text
    assert "int kfunc____do_sys_geteuid(void *ctx)\n{\n\treturn 0;\n}" in text
    assert text.count("count(4, OPEN_RUN)") == text.count("count(5, OPEN_RUN)") == 1


def test_the_shared_header_is_in_the_text() -> None:
    text = program_text(kernel_with())
    assert "#include" not in text
    assert text.index("#define INLINE") < text.index("struct calls {") < text.index("BPF_ARRAY(")


def test_a_call_without_its_partner_is_not_probed() -> None:
    text = program_text(kernel_with("__do_sys_getuid"))
    assert "__do_sys_getuid" not in text
